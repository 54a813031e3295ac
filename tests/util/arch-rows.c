/* SPDX-License-Identifier: MIT */
/* One row for each model; arch-row.h has the notation. */
#include "base/util.h"
#include "util/arch-row.h"

#define YARN                                                                                       \
        "rope.scaling.type=yarn rope.scaling.factor=4.0 rope.scaling.original_context_length=32 "
#define LLAMA_LAYER "@norm; @qkv; @ffn-norm; @gated"
#define QWEN3_LAYER "@norm; @qkv; @head-norms; @ffn-norm; @gated"
#define EXPERTS "sparse:@router; sparse:@experts"
#define YARN_MULTIPLIER YARN "rope.scaling.yarn_log_multiplier=0.07 "
/* Heads of 32 channels without positions and 32 with them, and values of 48; rows of 256. */
#define MLA(q_rank)                                                                                \
        "attention.q_lora_rank=" q_rank " attention.kv_lora_rank=256 attention.key_length=288 "    \
        "attention.value_length=256 attention.key_length_mla=64 attention.value_length_mla=48 "
#define EXPERTS_OF_V3                                                                              \
        "leading_dense_block_count=1 expert_shared_count=1 expert_weights_scale=2.5 "              \
        "expert_weights_norm=true expert_gating_func=2 expert_group_count=4 "                      \
        "expert_group_used_count=2"
#define MLA_LAYER(tensors)                                                                         \
        "@norm; " tensors "; @latent; @ffn-norm; dense:@gated; " EXPERTS "; sparse:@shared"
#define OUTPUT_BIAS "; attn_output.bias d"
#define NO_ATTENTION                                                                               \
        "attention.head_count=0 attention.head_count_kv= attention.key_length= "                   \
        "attention.value_length= rope.dimension_count= rope.freq_base= "
#define GRANITE "embedding_scale=2.0 residual_scale=0.6 attention.scale=0.25 logit_scale=1.5 "
/* The layer norm's epsilon is there and not used. */
#define NEMOTRON "attention.layer_norm_epsilon=0.3 rope.dimension_count= rope.freq_base= "
#define NEMOTRON_EXPERTS                                                                           \
        "attention.head_count_kv=[0,0,0,0,2*] feed_forward_length=[0,32*,0,32*,0] "                \
        "expert_shared_feed_forward_length=64* expert_shared_count=1 expert_group_count=1 "        \
        "expert_weights_norm=true expert_weights_scale=2.5"
#define NEMOTRON_LAYER                                                                             \
        "@norm; recurrent:@mamba2; recurrent:@mamba2-norm; attending:@qkv; feeding:@router; "      \
        "feeding:@choice-bias; feeding:@plain-shared; "
#define LFM2 "shortconv.l_cache=3 attention.head_count_kv=[0,0,2*,0]"
#define LFM2_LAYER "@norm; recurrent:@short-conv; attending:@qkv; attending:@head-norms; @ffn-norm"

#define DELTA                                                                                      \
        "ssm.conv_kernel=4 ssm.inner_size=128* ssm.state_size=32 ssm.time_step_rank=4* "           \
        "ssm.group_count=2* "
#define DELTA_LAYER                                                                                \
        "@norm; recurrent:@delta; attending:@gated-qkv; attending:@head-norms; "                   \
        "post_attention_norm.weight d; "
#define QWEN35                                                                                     \
        "recurrent:@delta-projections; recurrent:ssm_alpha.weight d H; "                           \
        "recurrent:ssm_beta.weight d H; "
#define SHARED_GATED "; @shared; ffn_gate_inp_shexp.weight d =0~0.3"
#define KDA "ssm.conv_kernel=4 kda.head_dim=32 "
/* No keys of attention. */
#define RWKV                                                                                       \
        "attention.head_count=0 attention.head_count_kv= attention.key_length= "                   \
        "attention.value_length= rope.dimension_count= rope.freq_base= token_shift_count=2 "
#define RWKV6 RWKV "wkv.head_size=16 time_mix_extra_dim=16 time_decay_extra_dim=16 "
#define RWKV7                                                                                      \
        RWKV "wkv.head_size=64 attention.decay_lora_rank=16 attention.iclr_lora_rank=8 "           \
             "attention.value_residual_mix_lora_rank=8 "
#define RWKV_MODEL "@untied-bias; token_embd_norm.weight d; token_embd_norm.bias d"

const struct arch_row arch_rows[] = {
        {.name = "llama", .arch = "llama", .model = "@untied", .layer = LLAMA_LAYER},
        {.name = "llama-biases",
                .arch = "llama",
                .model = "@tied; rope_freqs.weight r =4~0.5?",
                .layer = "@norm; @qkv-bias; attn_output.bias d ?; @ffn-norm; @gated; "
                         "ffn_gate.bias F ?; ffn_up.bias F ?; ffn_down.bias d ?"},
        {.name = "llama-fused",
                .arch = "llama",
                .keys = YARN,
                .model = "@untied",
                .layer = "@norm; @fused; attn_qkv.bias Hh+2Kh ?; @ffn-norm; @gated"},
        /* The window is not used, as Mistral 7B v0.1 has it. */
        {.name = "llama-linear",
                .arch = "llama",
                .keys = "rope.scaling.type=linear rope.scaling.factor=2.0 "
                        "attention.sliding_window=16",
                .model = "@untied",
                .layer = LLAMA_LAYER},
        {.name = "llama-moe",
                .arch = "llama",
                .n_expert = 6,
                .n_used = 2,
                .n_ff = 32,
                .ff_expert_is_ff = true,
                .model = "@untied",
                .layer = "@norm; @qkv; @ffn-norm; " EXPERTS},
        {.name = "mistral3",
                .arch = "mistral3",
                .keys = YARN "attention.temperature_scale=0.5",
                .model = "@untied",
                .layer = LLAMA_LAYER},
        {.name = "granite",
                .arch = "granite",
                .keys = "embedding_scale=2.0 residual_scale=0.6 attention.scale=0.25 "
                        "logit_scale=1.5",
                .model = "@tied",
                .layer = LLAMA_LAYER},
        {.name = "granitemoe",
                .arch = "granitemoe",
                .n_expert = 6,
                .n_used = 2,
                .n_ff = 32,
                .n_ff_shared = 64,
                .ff_expert_is_ff = true,
                .keys = "embedding_scale=2.0 residual_scale=0.6 attention.scale=0.25 "
                        "logit_scale=1.5 expert_shared_feed_forward_length=64*",
                .model = "@tied",
                .layer = "@norm; @qkv; @ffn-norm; " EXPERTS "; @shared"},
        {.name = "smollm3",
                .arch = "smollm3",
                .n_layer = 5,
                .model = "@tied",
                .layer = LLAMA_LAYER},
        {.name = "arcee",
                .arch = "arcee",
                .model = "@untied",
                .layer = "@norm; @qkv; @ffn-norm; @plain"},
        {.name = "apertus",
                .arch = "apertus",
                .keys = ".xielu.alpha_n=[0.3,0.5,0.8] .xielu.alpha_p=[0.9,0.4,0.6] "
                        ".xielu.beta=[0.5,0.4,0.6] .xielu.eps=[-0.000001,-0.000002,-0.000001]",
                .model = "@untied",
                .layer = "@norm; @qkv; @head-norms; @ffn-norm; @plain"},

        {.name = "qwen2",
                .arch = "qwen2",
                .n_head = 2,
                .n_kv_head = 1,
                .keys = "rope.freq_base=1000000.0",
                .model = "@untied; output.bias V ?",
                .layer = "@norm; @qkv-bias; @ffn-norm; @gated"},
        {.name = "qwen2moe",
                .arch = "qwen2moe",
                .n_head = 2,
                .n_kv_head = 1,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_ff_shared = 64,
                .keys = "expert_shared_feed_forward_length=64*",
                .model = "@untied",
                .layer = "@norm; @qkv-bias; @ffn-norm; " EXPERTS
                         "; @shared; ffn_gate_inp_shexp.weight d =0~0.3"},
        {.name = "qwen3", .arch = "qwen3", .model = "@tied", .layer = QWEN3_LAYER},
        {.name = "qwen3moe",
                .arch = "qwen3moe",
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .model = "@untied",
                .layer = "@norm; @qkv; @head-norms; @ffn-norm; " EXPERTS},
        {.name = "qwen3vl",
                .arch = "qwen3vl",
                .keys = "rope.dimension_sections=[6,5,5,0]",
                .model = "@untied",
                .layer = QWEN3_LAYER},

        {.name = "gemma", .arch = "gemma", .gelu = true, .model = "@gemma", .layer = LLAMA_LAYER},
        {.name = "gemma2",
                .arch = "gemma2",
                .n_layer = 4,
                .gelu = true,
                .keys = "attention.sliding_window=20 attn_logit_softcapping=2.0 "
                        "final_logit_softcapping=3.0",
                .model = "@gemma",
                .layer = LLAMA_LAYER "; @post-norms"},
        {.name = "gemma3",
                .arch = "gemma3",
                .n_layer = 7,
                .gelu = true,
                .keys = "attention.sliding_window=16 rope.freq_base=1000000.0 "
                        "rope.scaling.type=linear rope.scaling.factor=8.0",
                .model = "@gemma",
                .layer = QWEN3_LAYER "; @post-norms"},
        /* Sharing begins at layer 20, from layers 18 and 19; the sizes 256 and 64 are constants. */
        {.name = "gemma3n",
                .arch = "gemma3n",
                .n_layer = 25,
                .n_embd = 32,
                .n_head = 2,
                .n_kv_head = 1,
                .n_ff = 64,
                .n_per_layer = 256,
                .n_shared = 5,
                .gelu = true,
                .keys = "attention.sliding_window=16 rope.freq_base=1000000.0 "
                        "embedding_length_per_layer_input=256 attention.shared_kv_layers=5 "
                        "altup.active_idx=0 altup.num_inputs=4",
                .model = "@gemma; @per-layer; altup_proj.weight d d 3; "
                         "altup_unembd_proj.weight d d 3",
                .layer =
                        "@norm; @qkv; @small-head-norms; @ffn-norm; @gated"
                        "; @post-norms; altup_router.weight d 4 *4!; altup_router_norm.weight d; "
                        "altup_predict_coef.weight 4 16 *0.5!; "
                        "altup_correct_coef.weight 4 4 *0.5!; altup_correct_scale.weight d =1~0.2; "
                        "laurel_l.weight d 64 !; laurel_r.weight 64 d !; laurel_post_norm.weight "
                        "d; "
                        "inp_gate.weight d P; proj.weight P d; post_norm.weight d"},
        {.name = "gemma4",
                .arch = "gemma4",
                .n_layer = 6,
                .n_kv_head = 1,
                .head_dim = 64,
                .n_kv_head_local = 2,
                .head_dim_local = 32,
                .n_per_layer = 16,
                .n_shared = 2,
                .pattern = "lg",
                .wide = "nnnnww",
                .gelu = true,
                .keys = "attention.sliding_window=16 "
                        "attention.sliding_window_pattern=[true,false,true,false,true,false] "
                        "attention.head_count_kv=[2*,1*,2*,1*,2*,1*] attention.key_length_swa=32 "
                        "attention.value_length_swa=32 rope.dimension_count_swa=32 "
                        "rope.freq_base=1000000.0 rope.freq_base_swa=15000.0 "
                        "embedding_length_per_layer_input=16 attention.shared_kv_layers=2 "
                        "feed_forward_length=[96*,96*,96*,96*,192*,192*] "
                        "final_logit_softcapping=4.0",
                .model = "@gemma; @per-layer; rope_freqs.weight r ^?",
                .layer = "@norm; attn_q.weight d Hh; attn_k.weight d Kh; attn_v.weight d Kh ?; "
                         "attn_output.weight Hh d *1.4; @small-head-norms; @ffn-norm; @gated"
                         "; @post-norms; inp_gate.weight d P; proj.weight P d; "
                         "post_norm.weight d; layer_output_scale.weight 1 =0.8~0.1?"},
        {.name = "gemma4-moe",
                .arch = "gemma4",
                .n_layer = 4,
                .n_kv_head = 1,
                .head_dim = 64,
                .n_kv_head_local = 2,
                .head_dim_local = 32,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .pattern = "lllg",
                .gelu = true,
                .keys = "attention.sliding_window=16 "
                        "attention.sliding_window_pattern=[true,true,true,false] "
                        "attention.head_count_kv=[2*,2*,2*,1*] attention.key_length_swa=32 "
                        "attention.value_length_swa=32 rope.dimension_count_swa=32 "
                        "rope.freq_base=1000000.0 rope.freq_base_swa=15000.0 "
                        "embedding_length_per_layer_input=0 attention.shared_kv_layers=0 "
                        "final_logit_softcapping=4.0",
                .model = "@gemma; rope_freqs.weight r ^?",
                .layer = "@norm; attn_q.weight d Hh; attn_k.weight d Kh; "
                         "local:attn_v.weight d Kh ?; attn_output.weight Hh d *1.4; "
                         "@small-head-norms; @ffn-norm; @gated; @post-norms; @router; "
                         "ffn_gate_inp.scale d =4~1!; pre_ffw_norm_2.weight d; "
                         "post_ffw_norm_1.weight d; post_ffw_norm_2.weight d; "
                         "ffn_gate_up_exps.weight d 2f E; ffn_down_exps.weight f d E; "
                         "ffn_down_exps.scale E =1~0.2?; layer_output_scale.weight 1 =0.8~0.1?"},

        {.name = "phi2",
                .arch = "phi2",
                .n_head = 2,
                .n_kv_head = 1,
                .n_rot = 16,
                .layer_norm = true,
                .gelu = true,
                .model = "@untied-bias; output.bias V",
                .layer = "@norm-bias; @qkv-bias" OUTPUT_BIAS "; @plain-bias"},
        /* 512 positions are more than the original 64, so the long factors are used. */
        {.name = "phi3",
                .arch = "phi3",
                .n_head = 2,
                .n_kv_head = 1,
                .n_rot = 24,
                .keys = "rope.scaling.original_context_length=64 rope.scaling.attn_factor=1.2 "
                        "attention.sliding_window=16",
                .model = "@untied; rope_factors_long.weight r =3~0.5?; "
                         "rope_factors_short.weight r =1.2~0.1?",
                .layer = "@norm; @fused; @ffn-norm; @gated-in-one"},
        {.name = "phi3-short",
                .arch = "phi3",
                .n_head = 2,
                .n_kv_head = 1,
                .keys = "rope.scaling.original_context_length=512 rope.scaling.attn_factor=1.0",
                .model = "@untied; rope_factors_long.weight r =3~0.5?; "
                         "rope_factors_short.weight r =1.2~0.1?",
                .layer = "@norm; @fused; @ffn-norm; @gated-in-one"},
        {.name = "gpt2",
                .arch = "gpt2",
                .n_head = 2,
                .layer_norm = true,
                .gelu = true,
                .keys = "attention.head_count_kv= attention.key_length= attention.value_length= "
                        "rope.dimension_count= rope.freq_base=",
                .model = "@tied-bias; position_embd.weight d C =0~0.4!",
                .layer = "@norm-bias; @fused; attn_qkv.bias Hh+2Kh" OUTPUT_BIAS
                         "; @ffn-norm-bias; @plain-bias"},
        {.name = "gpt-oss",
                .arch = "gpt-oss",
                .n_layer = 4,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .keys = YARN "attention.sliding_window=16",
                .model = "@untied",
                .layer = "@norm; @qkv-bias" OUTPUT_BIAS
                         "; attn_sinks.weight H =0~1; post_attention_norm.weight d; " EXPERTS
                         "; ffn_gate_inp.bias E; ffn_gate_exps.bias f E =0~0.3!; "
                         "ffn_up_exps.bias f E =0~0.3!; ffn_down_exps.bias d E =0~0.3!"},
        {.name = "starcoder2",
                .arch = "starcoder2",
                .n_head = 2,
                .n_kv_head = 1,
                .layer_norm = true,
                .gelu = true,
                .model = "@untied-bias",
                .layer = "@norm-bias; @qkv-bias" OUTPUT_BIAS "; @ffn-norm-bias; @plain-bias"},
        {.name = "stablelm",
                .arch = "stablelm",
                .n_head = 2,
                .n_kv_head = 1,
                .n_rot = 16,
                .layer_norm = true,
                .keys = "use_parallel_residual=false",
                .model = "@untied-bias",
                .layer = "@norm-bias; @qkv-bias; ffn_norm.weight d ?; ffn_norm.bias d ?; @gated"},
        {.name = "stablelm-parallel",
                .arch = "stablelm",
                .n_head = 2,
                .n_kv_head = 2,
                .n_rot = 8,
                .layer_norm = true,
                .keys = "use_parallel_residual=true",
                .model = "@untied-bias",
                .layer = "@norm-bias; @qkv; attn_q_norm.weight h H =1~0.2!?; "
                         "attn_k_norm.weight h K =1~0.2!?; @gated"},

        {.name = "olmo2",
                .arch = "olmo2",
                .n_head = 2,
                .n_kv_head = 1,
                .model = "@untied",
                .layer = "@qkv; @row-norms; @gated; @post-norms"},
        {.name = "olmo3",
                .arch = "olmo2",
                .n_head = 2,
                .n_kv_head = 1,
                .n_layer = 4,
                .keys = YARN "attention.sliding_window=16 "
                             "attention.sliding_window_pattern=[true,true,true,false]",
                .model = "@untied",
                .layer = "@qkv; @row-norms; @gated; @post-norms"},
        {.name = "olmoe",
                .arch = "olmoe",
                .n_head = 2,
                .n_expert = 6,
                .n_used = 2,
                .n_ff = 32,
                .ff_expert_is_ff = true,
                .model = "@untied",
                .layer = "@norm; @qkv; @row-norms; @ffn-norm; " EXPERTS},
        {.name = "cohere2",
                .arch = "cohere2",
                .n_head = 2,
                .n_kv_head = 1,
                .n_layer = 5,
                .n_rot = 16,
                .layer_norm = true,
                .keys = "attention.sliding_window=16 logit_scale=0.5 rope.scaling.type=none",
                .model = "@tied",
                .layer = "@norm; @qkv; @gated"},
        {.name = "command-r",
                .arch = "command-r",
                .n_head = 2,
                .n_kv_head = 1,
                .layer_norm = true,
                .keys = "logit_scale=0.5 rope.scaling.type=none",
                .model = "@tied",
                .layer = "@norm; @qkv; @gated"},
        /* From 64 layers on there are norms of q and k. */
        {.name = "command-r-64",
                .arch = "command-r",
                .n_layer = 64,
                .n_embd = 32,
                .n_head = 2,
                .n_kv_head = 1,
                .head_dim = 16,
                .n_ff = 48,
                .layer_norm = true,
                .keys = "logit_scale=0.5 rope.scaling.type=none",
                .model = "@tied",
                .layer = "@norm; @qkv; attn_q_norm.weight h H =1~0.2!; "
                         "attn_k_norm.weight h K =1~0.2!; @gated"},
        {.name = "glm4",
                .arch = "glm4",
                .n_rot = 16,
                .model = "@untied",
                .layer = "@norm; @qkv-bias; @ffn-norm; @gated-in-one; @post-norms"},
        {.name = "glm4moe",
                .arch = "glm4moe",
                .n_layer = 4,
                .n_rot = 16,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_ff_shared = 32,
                .n_dense = 1,
                .n_draft = 1,
                .keys = "leading_dense_block_count=1 expert_shared_count=1 "
                        "expert_weights_scale=1.5 expert_weights_norm=true expert_gating_func=2 "
                        "nextn_predict_layers=1",
                .model = "@untied",
                .layer = "@norm; @qkv-bias; attn_q_norm.weight h ?; attn_k_norm.weight h ?; "
                         "post_attention_norm.weight d; dense:@gated; " EXPERTS
                         "; sparse:@choice-bias; sparse:@shared; draft:@draft"},
        {.name = "ernie4_5", .arch = "ernie4_5", .model = "@tied", .layer = LLAMA_LAYER},
        {.name = "ernie4_5-moe",
                .arch = "ernie4_5-moe",
                .n_layer = 4,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_ff_shared = 64,
                .n_dense = 1,
                .keys = "leading_dense_block_count=1 interleave_moe_layer_step=1 "
                        "expert_shared_feed_forward_length=64*",
                .model = "@untied",
                .layer = "@norm; @qkv; @ffn-norm; dense:@gated; " EXPERTS
                         "; sparse:exp_probs_b.bias E ?; sparse:@shared"},
        {.name = "seed_oss",
                .arch = "seed_oss",
                .model = "@untied",
                .layer = "@norm; @qkv-bias; post_attention_norm.weight d; @gated"},
        /* The window is not used with other than 64 layers. */
        {.name = "exaone4",
                .arch = "exaone4",
                .n_head = 2,
                .n_kv_head = 1,
                .n_layer = 4,
                .keys = "attention.sliding_window=16",
                .model = "@untied",
                .layer = "@qkv; @head-norms; @gated; @post-norms"},
        {.name = "exaone4-64",
                .arch = "exaone4",
                .n_layer = 64,
                .n_embd = 32,
                .n_head = 2,
                .n_kv_head = 1,
                .head_dim = 16,
                .n_ff = 48,
                .keys = "attention.sliding_window=16",
                .model = "@tied",
                .layer = "@qkv; @head-norms; @gated; @post-norms"},
        {.name = "exaone-moe",
                .arch = "exaone-moe",
                .n_layer = 5,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_ff_shared = 32,
                .n_dense = 1,
                .keys = "leading_dense_block_count=1 attention.sliding_window=16 "
                        "expert_shared_count=1 expert_weights_scale=2.5 expert_weights_norm=true "
                        "expert_gating_func=2",
                .model = "@untied",
                .layer = "@norm; @qkv; @head-norms; @ffn-norm; dense:@gated; " EXPERTS
                         "; sparse:exp_probs_b.bias E ?; sparse:@shared"},
        /* As V3 has it: groups of experts chosen with a bias, YaRN with its multiplier. */
        {.name = "deepseek2",
                .arch = "deepseek2",
                .n_kv_head = 1,
                .head_dim = 64,
                .n_rot = 32,
                .n_expert = 8,
                .n_used = 3,
                .n_ff_expert = 32,
                .n_ff_shared = 32,
                .n_dense = 1,
                .keys = YARN_MULTIPLIER MLA("128*") EXPERTS_OF_V3,
                .model = "@untied",
                .layer = MLA_LAYER(
                        "@latent-queries; @latent-split") "; sparse:exp_probs_b.bias E ?"},
        /* As V2 Lite: queries of the residual, softmax; YaRN without a multiplier. More heads than are
         * computed at once. */
        {.name = "deepseek2-lite",
                .arch = "deepseek2",
                .n_head = 18,
                .n_kv_head = 1,
                .head_dim = 64,
                .n_rot = 32,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_ff_shared = 64,
                .n_dense = 1,
                .keys = YARN MLA("0") "leading_dense_block_count=1 expert_shared_count=2 "
                                      "expert_weights_scale=1.5 expert_gating_func=1",
                .model = "@untied",
                .layer = MLA_LAYER("attn_q.weight d Hh; @latent-split")},
        /* From before latent rows were kept: one matrix for keys and values, sizes of heads. */
        {.name = "deepseek2-unsplit",
                .arch = "deepseek2",
                .n_kv_head = 4,
                .head_dim = 64,
                .n_rot = 32,
                .n_expert = 8,
                .n_used = 3,
                .n_ff_expert = 32,
                .n_ff_shared = 32,
                .n_dense = 1,
                .keys = "attention.q_lora_rank=128* attention.kv_lora_rank=256 "
                        "attention.value_length=48 " YARN_MULTIPLIER EXPERTS_OF_V3,
                .model = "@untied",
                .layer = MLA_LAYER(
                        "@latent-queries; attn_kv_b.weight 256 32H+48H") "; "
                                                                         "sparse:exp_probs_b.bias "
                                                                         "E ?"},
        {.name = "mistral4",
                .arch = "mistral4",
                .n_kv_head = 1,
                .head_dim = 64,
                .n_rot = 32,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_ff_shared = 32,
                .keys = YARN_MULTIPLIER MLA(
                        "128*") "expert_shared_count=1 "
                                "expert_weights_norm=true expert_gating_func=1 "
                                "attention.temperature_scale=0.5 attention.temperature_length=16",
                .model = "@untied",
                .layer = "@norm; @latent-queries; @latent-split; @latent; @ffn-norm; @router; "
                         "ffn_gate_up_exps.weight d 2f E; ffn_down_exps.weight f d E; @shared"},
        {.name = "hunyuan-dense", .arch = "hunyuan-dense", .model = "@tied", .layer = QWEN3_LAYER},
        {.name = "hunyuan-moe",
                .arch = "hunyuan-moe",
                .n_expert = 6,
                .n_used = 2,
                .n_ff = 32,
                .n_ff_shared = 64,
                .ff_expert_is_ff = true,
                .keys = "expert_feed_forward_length=32* expert_shared_feed_forward_length=64*",
                .model = "@tied",
                .layer = "@norm; @qkv; @head-norms; @ffn-norm; " EXPERTS "; @shared"},
        {.name = "minimax-m2",
                .arch = "minimax-m2",
                .n_rot = 16,
                .n_expert = 6,
                .n_used = 2,
                .n_ff = 32,
                .ff_expert_is_ff = true,
                .keys = "expert_feed_forward_length=32* expert_gating_func=2",
                .model = "@untied",
                .layer = "@norm; @qkv; @row-norms; @ffn-norm; " EXPERTS "; @choice-bias"},
        {.name = "bailingmoe2",
                .arch = "bailingmoe2",
                .n_head = 2,
                .n_kv_head = 1,
                .n_rot = 16,
                .n_expert = 8,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_ff_shared = 64,
                .n_dense = 1,
                .keys = "leading_dense_block_count=1 expert_shared_feed_forward_length=32* "
                        "expert_shared_count=2 expert_weights_scale=2.5 expert_weights_norm=true "
                        "expert_gating_func=2 expert_group_count=4 expert_group_used_count=2",
                .model = "@untied",
                .layer = "@norm; @fused; @head-norms; @ffn-norm; dense:@gated; " EXPERTS
                         "; sparse:exp_probs_b.bias E ?; sparse:@shared"},
        {.name = "dots1",
                .arch = "dots1",
                .n_kv_head = 4,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_ff_shared = 64,
                .n_dense = 1,
                .keys = "leading_dense_block_count=1 expert_shared_count=2 "
                        "expert_weights_scale=2.5 expert_weights_norm=true expert_gating_func=2",
                .model = "@untied",
                .layer = "@norm; @qkv; @head-norms; @ffn-norm; dense:@gated; " EXPERTS
                         "; sparse:exp_probs_b.bias E ?; sparse:@shared"},
        /* Chunks of 8192 tokens are a constant; four layers for one without rope. */
        {.name = "llama4",
                .arch = "llama4",
                .n_layer = 4,
                .n_expert = 6,
                .n_used = 1,
                .n_ff_expert = 32,
                .n_ff_shared = 32,
                .expert_step = 2,
                .keys = "interleave_moe_layer_step=2 context_length=16384",
                .model = "@untied",
                .layer = "@norm; @qkv; @ffn-norm; dense:@gated; " EXPERTS "; sparse:@shared"},

        {.name = "mamba",
                .arch = "mamba",
                .n_inner = 128,
                .n_state = 16,
                .rank = 4,
                .keys = NO_ATTENTION "feed_forward_length=0",
                .model = "@tied",
                .layer = "@norm; @mamba"},
        {.name = "falcon-mamba",
                .arch = "mamba",
                .n_inner = 128,
                .n_state = 8,
                .rank = 4,
                .keys = NO_ATTENTION "feed_forward_length=0 ssm.dt_b_c_rms=true",
                .model = "@untied",
                .layer = "@norm; @mamba"},
        {.name = "mamba2",
                .arch = "mamba2",
                .n_inner = 128,
                .n_state = 16,
                .rank = 8,
                .n_group = 2,
                .keys = NO_ATTENTION "feed_forward_length=0",
                .model = "@untied",
                .layer = "@norm; @mamba2; @mamba2-rest"},
        {.name = "jamba",
                .arch = "jamba",
                .n_layer = 4,
                .head_dim = 16,
                .n_inner = 128,
                .n_state = 16,
                .rank = 4,
                .n_expert = 6,
                .n_used = 2,
                .n_ff = 48,
                .ff_expert_is_ff = true,
                .expert_step = 2,
                .branches = "rra",
                .keys = "attention.head_count_kv=[0,0,2*,0] rope.dimension_count= rope.freq_base=",
                .model = "@tied",
                .layer = "@norm; recurrent:@mamba; recurrent:@mamba-norms; attending:@qkv; "
                         "@ffn-norm; dense:@gated; " EXPERTS},
        {.name = "granitehybrid",
                .arch = "granitehybrid",
                .n_layer = 4,
                .head_dim = 16,
                .n_inner = 128,
                .n_state = 16,
                .rank = 8,
                .n_group = 1,
                .branches = "ra",
                .keys = GRANITE "attention.head_count_kv=[0,2*,0,2*] rope.scaling.finetuned=false",
                .model = "@tied",
                .layer = "@norm; recurrent:@mamba2; recurrent:@mamba2-norm; attending:@qkv; "
                         "@ffn-norm; @gated"},
        {.name = "granitehybrid-moe",
                .arch = "granitehybrid",
                .n_layer = 4,
                .head_dim = 16,
                .n_inner = 128,
                .n_state = 24,
                .rank = 4,
                .n_group = 2,
                .n_expert = 6,
                .n_used = 2,
                .n_ff = 32,
                .n_ff_shared = 64,
                .ff_expert_is_ff = true,
                .branches = "rar",
                .keys = GRANITE "attention.head_count_kv=[0,2*,0,0] "
                                "expert_shared_feed_forward_length=64*",
                .model = "@tied",
                .layer = "@norm; recurrent:@mamba2; recurrent:@mamba2-norm; attending:@qkv; "
                         "@ffn-norm; " EXPERTS "; @shared"},
        {.name = "nemotron_h",
                .arch = "nemotron_h",
                .n_layer = 5,
                .n_inner = 96,
                .n_state = 16,
                .rank = 4,
                .n_group = 2,
                .branches = "rfarf",
                .keys = NEMOTRON "attention.head_count_kv=[0,0,2*,0,0] "
                                 "feed_forward_length=[0,96*,0,0,96*]",
                .model = "@untied",
                .layer = "@norm; recurrent:@mamba2; recurrent:@mamba2-norm; attending:@qkv; "
                         "feeding:@plain; feeding:ffn_up.bias F ?; feeding:ffn_down.bias d ?"},
        {.name = "nemotron_h_moe",
                .arch = "nemotron_h_moe",
                .n_layer = 5,
                .n_inner = 128,
                .n_state = 16,
                .rank = 8,
                .n_group = 2,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_ff_shared = 64,
                .branches = "rfrfa",
                .keys = NEMOTRON NEMOTRON_EXPERTS,
                .model = "@untied",
                .layer = NEMOTRON_LAYER "feeding:@plain-experts"},
        {.name = "nemotron_h_moe-latent",
                .arch = "nemotron_h_moe",
                .n_layer = 5,
                .n_inner = 128,
                .n_state = 16,
                .rank = 8,
                .n_group = 2,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_ff_shared = 64,
                .n_latent = 32,
                .branches = "rfrfa",
                .keys = NEMOTRON NEMOTRON_EXPERTS " moe_latent_size=32*",
                .model = "@untied",
                .layer = NEMOTRON_LAYER
                "feeding:ffn_latent_down.weight d M; feeding:ffn_latent_up.weight M d; "
                "feeding:ffn_up_exps.weight M f E; feeding:ffn_down_exps.weight f M E"},
        {.name = "falcon-h1",
                .arch = "falcon-h1",
                .n_inner = 96,
                .n_state = 16,
                .rank = 4,
                .n_group = 1,
                .keys = "rope.freq_base=100000000000.0",
                .model = "@untied",
                .layer = "@norm; @qkv; @mamba2; ssm_conv1d.bias D+2GN ?; "
                         "ssm_norm.weight g G =1~0.2!?; ffn_norm d =1~0.2; @gated"},
        /* No norm behind the gate; heads of 40 channels are no whole number of vectors. */
        {.name = "falcon-h1-bare",
                .arch = "falcon-h1",
                .n_layer = 2,
                .head_dim = 24,
                .n_inner = 120,
                .n_state = 12,
                .rank = 3,
                .n_group = 3,
                .keys = "rope.freq_base=100000000000.0",
                .model = "@tied",
                .layer =
                        "@norm; @qkv; @mamba2; ssm_conv1d.bias D+2GN ?; ffn_norm d =1~0.2; @gated"},
        {.name = "lfm2",
                .arch = "lfm2",
                .n_layer = 4,
                .head_dim = 16,
                .branches = "rra",
                .keys = LFM2,
                .model = "token_embd.weight d V =0~0.25; token_embd_norm.weight d",
                .layer = LFM2_LAYER "; @gated"},
        {.name = "lfm2-window",
                .arch = "lfm2",
                .n_layer = 4,
                .head_dim = 16,
                .branches = "rra",
                .keys = LFM2 " attention.sliding_window=16",
                .model = "token_embd.weight d V =0~0.25; token_embd_norm.weight d",
                .layer = LFM2_LAYER "; @gated"},
        {.name = "lfm2moe",
                .arch = "lfm2moe",
                .n_layer = 4,
                .head_dim = 16,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_dense = 1,
                .branches = "rra",
                .keys = LFM2 " leading_dense_block_count=1 expert_gating_func=2",
                .model = "token_embd.weight d V =0~0.25; token_embd_norm.weight d",
                .layer = LFM2_LAYER "; dense:@gated; " EXPERTS "; sparse:@choice-bias"},

        {.name = "qwen3next",
                .arch = "qwen3next",
                .n_layer = 4,
                .n_rot = 8,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_ff_shared = 32,
                .branches = "ra",
                .keys = DELTA "full_attention_interval=2 expert_shared_feed_forward_length=32*",
                .model = "@untied",
                .layer = DELTA_LAYER
                "recurrent:@delta-projections; recurrent:ssm_ba.weight d 2H; " EXPERTS
                        SHARED_GATED},
        /* Projections of each key head together, as older files have them. */
        {.name = "qwen3next-grouped",
                .arch = "qwen3next",
                .n_rot = 8,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_ff_shared = 32,
                .branches = "rar",
                .keys = DELTA "full_attention_interval=2 expert_shared_feed_forward_length=32*",
                .model = "@tied",
                .layer = DELTA_LAYER "recurrent:ssm_in.weight d 64K+64H; "
                                     "recurrent:ssm_ba.weight d 2H; " EXPERTS SHARED_GATED},
        {.name = "qwen35",
                .arch = "qwen35",
                .n_layer = 5,
                .n_rot = 8,
                .n_draft = 1,
                .branches = "rrraa",
                .keys = DELTA "rope.dimension_sections=[2,1,1,0] nextn_predict_layers=1",
                .model = "@untied",
                .layer = DELTA_LAYER QWEN35 "@gated; draft:@draft"},
        {.name = "qwen35moe",
                .arch = "qwen35moe",
                .n_rot = 8,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_ff_shared = 32,
                .branches = "arr",
                .keys = DELTA "rope.dimension_sections=[2,1,1,0] feed_forward_length= "
                              "attention.recurrent_layers=[false,true,true] "
                              "expert_shared_feed_forward_length=32*",
                .model = "@tied",
                .layer = DELTA_LAYER QWEN35 EXPERTS SHARED_GATED},
        {.name = "kimi-linear",
                .arch = "kimi-linear",
                .n_layer = 4,
                .head_dim = 64,
                .n_rot = 32,
                .n_expert = 6,
                .n_used = 2,
                .n_ff_expert = 32,
                .n_ff_shared = 32,
                .n_dense = 1,
                .branches = "rrar",
                .keys = KDA MLA("0") "attention.head_count_kv=[0,0,1,0] expert_shared_count=1 "
                                     "leading_dense_block_count=1 expert_gating_func=2 "
                                     "expert_weights_norm=true "
                                     "expert_weights_scale=1.5 rope.freq_base=",
                .model = "@untied",
                .layer = "@norm; recurrent:@kda; attending:attn_q.weight d Hh; "
                         "attending:@latent-split; attending:@latent; @ffn-norm; "
                         "dense:@gated; " EXPERTS "; sparse:@choice-bias; sparse:@shared"},
        {.name = "rwkv6",
                .arch = "rwkv6",
                .n_layer = 4,
                .layer_norm = true,
                .keys = RWKV6 "rescale_every_n_layers=2",
                .model = RWKV_MODEL,
                .layer = "@rwkv-norms; @time-mix; @time-mix6; "
                         "time_mix_lerp_fused.weight d 1 1 5 =0.5~0.2!; @channel-mix; "
                         "@channel-mix6"},
        {.name = "rwkv6-apart",
                .arch = "rwkv6",
                .n_layer = 2,
                .layer_norm = true,
                .keys = RWKV6,
                .model = RWKV_MODEL,
                .layer = "@rwkv-norms; @time-mix; @time-mix6; "
                         "time_mix_lerp_w.weight d 1 1 =0.5~0.2!; "
                         "time_mix_lerp_k.weight d 1 1 =0.5~0.2!; "
                         "time_mix_lerp_v.weight d 1 1 =0.5~0.2!; "
                         "time_mix_lerp_r.weight d 1 1 =0.5~0.2!; "
                         "time_mix_lerp_g.weight d 1 1 =0.5~0.2!; @channel-mix; @channel-mix6"},
        /* Heads of 64: the engine that answers were recorded with computes no smaller ones. */
        {.name = "rwkv7",
                .arch = "rwkv7",
                .n_embd = 128,
                .layer_norm = true,
                .keys = RWKV7 "attention.gate_lora_rank=16",
                .model = RWKV_MODEL,
                .layer = "@rwkv-norms; @time-mix; @time-mix7; @value-residual; @time-mix-gate; "
                         "@channel-mix"},
};
const unsigned arch_n_rows = ARRAY_SIZE(arch_rows);
