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
        {"norm", "attn_norm.weight d"},
        {"norm-bias", "attn_norm.weight d; attn_norm.bias d"},

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
        {"choice-bias", "exp_probs_b.bias E"},
        {"shared", "ffn_gate_shexp.weight d s; ffn_up_shexp.weight d s; ffn_down_shexp.weight s d"},
        {"draft", "nextn.eh_proj.weight 2d d; nextn.enorm.weight d; nextn.hnorm.weight d"},
        {NULL, NULL},
};
