/* SPDX-License-Identifier: MIT */
/* Tensors that many architectures have in common. */
#include <stddef.h>

#include "util/arch-row.h"

const struct arch_part arch_parts[] = {
        /* of the model */
        {"tied", "token_embd.weight d V =0~0.25; output_norm.weight d"},
        {"untied", "token_embd.weight d V =0~0.7; output_norm.weight d; output.weight d V *1.4?"},
        {"tied-bias", "token_embd.weight d V =0~0.25; output_norm.weight d; output_norm.bias d"},
        {"untied-bias", "token_embd.weight d V =0~0.7; output_norm.weight d; output_norm.bias d; "
                        "output.weight d V *1.4?"},
        /* Multiplied by sqrt(d) on the way in, so small. */
        {"gemma", "token_embd.weight d V =0~0.1; output_norm.weight d"},
        {"per-layer",
                "per_layer_token_embd.weight PL V =0~0.3; per_layer_model_proj.weight d PL *1!; "
                "per_layer_proj_norm.weight P"},

        /* attention */
        {"qkv", "attn_q.weight d Hh; attn_k.weight d Kh; attn_v.weight d Kh; "
                "attn_output.weight Hh d *1.4"},
        {"qkv-bias", "attn_q.weight d Hh; attn_q.bias Hh ?; attn_k.weight d Kh; attn_k.bias Kh ?; "
                     "attn_v.weight d Kh; attn_v.bias Kh ?; attn_output.weight Hh d *1.4"},
        {"fused", "attn_qkv.weight d Hh+2Kh; attn_output.weight Hh d *1.4"},
        {"head-norms", "attn_q_norm.weight h; attn_k_norm.weight h"},
        /* Scores are not divided by sqrt(h); trained norms are small. */
        {"small-head-norms", "attn_q_norm.weight h =0.4~0.1; attn_k_norm.weight h =0.4~0.1"},
        {"row-norms", "attn_q_norm.weight Hh; attn_k_norm.weight Kh"},
        {"latent", "attn_kv_a_mqa.weight d 256+32; attn_kv_a_norm.weight 256; "
                   "attn_output.weight 48H d *1.4"},
        {"latent-queries", "attn_q_a.weight d 2d; attn_q_a_norm.weight 2d; attn_q_b.weight 2d Hh"},
        {"latent-split", "attn_k_b.weight 32 256 H; attn_v_b.weight 256 48 H"},
        {"norm", "attn_norm.weight d"},
        {"norm-bias", "attn_norm.weight d; attn_norm.bias d"},

        /* recurrence; decays are negative */
        {"mamba", "ssm_in.weight d 2D; ssm_conv1d.weight 4 D; ssm_conv1d.bias D; "
                  "ssm_x.weight D R+2N; ssm_dt.weight R D; ssm_dt.bias D; "
                  "ssm_a N D =-1~0.25!; ssm_d D =1~0.3; ssm_out.weight D d *1.4"},
        {"mamba-norms", "ssm_dt_norm.weight R; ssm_b_norm.weight N; ssm_c_norm.weight N"},
        {"mamba2", "ssm_in.weight d 2D+2GN+R; ssm_conv1d.weight 4 D+2GN; ssm_dt.bias R; "
                   " ssm_a 1 R =-1~0.25!; ssm_d 1 R =1~0.3!; ssm_out.weight D d *1.4"},
        {"mamba2-rest", "ssm_conv1d.bias D+2GN; ssm_norm.weight g G =1~0.2!"},
        /* where the bias is optional */
        {"mamba2-norm", "ssm_conv1d.bias D+2GN ?; ssm_norm.weight g G =1~0.2!"},
        {"short-conv", "shortconv.in_proj.weight d 3d; shortconv.conv.weight 3 d; "
                       "shortconv.out_proj.weight d d *1.4"},

        /* heads of 32: K of keys, H of values; decays are negative */
        {"delta", "ssm_conv1d.weight 4 64K+32H =0~0.7!; ssm_dt.bias H; ssm_a H =-1~0.3; "
                  "ssm_norm.weight 32; ssm_out.weight 32H d *1.4"},
        {"delta-projections", "attn_qkv.weight d 64K+32H; attn_gate.weight d 32H"},
        {"gated-qkv", "attn_q.weight d 2Hh; attn_k.weight d Kh; attn_v.weight d Kh; "
                      "attn_output.weight Hh d *1.4"},
        {"kda", "attn_q.weight d 32H; attn_k.weight d 32H; attn_v.weight d 32H; "
                "ssm_conv1d_q.weight 4 1 32H =0~0.7!; ssm_conv1d_k.weight 4 1 32H =0~0.7!; "
                "ssm_conv1d_v.weight 4 1 32H =0~0.7!; ssm_f_a.weight d 32; ssm_f_b.weight 32 32H; "
                "ssm_dt.bias 32H; ssm_a 1 H =-1~0.3!; ssm_beta.weight d H; ssm_g_a.weight d 32; "
                "ssm_g_b.weight 32 32H; ssm_norm.weight 32; attn_output.weight 32H d *1.4"},
        {"rwkv-norms", "attn_norm.weight d; attn_norm.bias d; attn_norm_2.weight d; "
                       "attn_norm_2.bias d"},
        {"time-mix", "time_mix_receptance.weight d d; time_mix_key.weight d d; "
                     "time_mix_value.weight d d; time_mix_output.weight d d *1.4; "
                     "time_mix_ln.weight d =1~0.2; time_mix_ln.bias d"},
        {"time-mix6", "time_mix_lerp_x.weight d 1 1 =0.5~0.2!; time_mix_w1.weight d 80; "
                      "time_mix_w2.weight 16 d 5; time_mix_decay.weight d =-1~0.5!; "
                      "time_mix_decay_w1.weight d 16; time_mix_decay_w2.weight 16 d; "
                      "time_mix_first.weight 16 H =0~0.5!; time_mix_gate.weight d d"},
        {"time-mix7",
                "time_mix_lerp_fused.weight d 1 1 6 =0.5~0.2!; time_mix_w0.weight d =-1~0.5!; "
                "time_mix_w1.weight d 16; time_mix_w2.weight 16 d; time_mix_a0.weight d; "
                "time_mix_a1.weight d 8; time_mix_a2.weight 8 d; time_mix_k_k.weight d =1~0.3; "
                "time_mix_k_a.weight d =1~0.3; time_mix_r_k.weight d =0~0.3"},
        {"value-residual", "time_mix_v0.weight d; time_mix_v1.weight d 8; time_mix_v2.weight 8 d"},
        {"time-mix-gate", "time_mix_g1.weight d 16; time_mix_g2.weight 16 d *1.4"},
        {"channel-mix", "channel_mix_lerp_k.weight d 1 1 =0.5~0.2!; channel_mix_key.weight d F; "
                        "channel_mix_value.weight F d *1.4"},
        {"channel-mix6", "channel_mix_lerp_r.weight d 1 1 =0.5~0.2!; "
                         "channel_mix_receptance.weight d d"},

        /* feed-forward */
        {"ffn-norm", "ffn_norm.weight d"},
        {"ffn-norm-bias", "ffn_norm.weight d; ffn_norm.bias d"},
        {"post-norms", "post_attention_norm.weight d; post_ffw_norm.weight d"},
        {"gated", "ffn_gate.weight d F; ffn_up.weight d F; ffn_down.weight F d"},
        {"gated-in-one", "ffn_up.weight d 2F; ffn_down.weight F d"},
        {"plain", "ffn_up.weight d F; ffn_down.weight F d *1.4"},
        {"plain-bias",
                "ffn_up.weight d F; ffn_up.bias F; ffn_down.weight F d *1.4; ffn_down.bias d"},
        {"router", "ffn_gate_inp.weight d E *1.5!"},
        {"experts",
                "ffn_gate_exps.weight d f E; ffn_up_exps.weight d f E; ffn_down_exps.weight f d E"},
        {"plain-experts", "ffn_up_exps.weight d f E; ffn_down_exps.weight f d E *1.4"},
        {"plain-shared", "ffn_up_shexp.weight d s; ffn_down_shexp.weight s d *1.4"},
        {"choice-bias", "exp_probs_b.bias E"},
        {"shared", "ffn_gate_shexp.weight d s; ffn_up_shexp.weight d s; ffn_down_shexp.weight s d"},
        {"draft", "nextn.eh_proj.weight 2d d; nextn.enorm.weight d; nextn.hnorm.weight d"},
        {NULL, NULL},
};
