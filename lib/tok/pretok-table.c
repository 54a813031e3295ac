/* SPDX-License-Identifier: MIT */
/*
 * The pre-tokenizers that GGUF files name (tokenizer.ggml.pre), as data. Names with the same rules
 * and flags share a row. The rules are those of the models' own tokenizers, in the syntax that
 * regex.h describes, and apply one after another.
 *
 * Some rules are written differently from the models' tokenizer.json but match the same texts:
 * - deepseek-llm's \s+$ begins only at the start of a run (every match of it does);
 * - jais-2 does not look for the newline of a run again after every part of the run (the newline is
 *   looked for first, so there is none);
 * - kimi-k2's "letters but not Han" are complements, since classes cannot be intersected;
 * - digits are counted by the rules of pretok.c that begin with @.
 */
#include "base/util.h"
#include "tok/tok-internal.h"

/* 's 't 're 've 'm 'll 'd in either case */
#define TAIL_EN "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* GPT-2 */
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"

/* Llama 3 and what follows it: one word, @digits at a time, punctuation, spaces. */
#define WORDS(digits) TAIL_EN "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits
#define LLAMA3(digits) WORDS(digits) "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES

/* Words that end where upper case follows lower case (tekken, o200k). @tail: an optional ending. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(upper, lower, tail)                                                                  \
        "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" upper          \
        "+" lower "*" tail
#define O200K                                                                                      \
        CASED(UPPER, LOWER, TAIL_EN "?")                                                           \
        "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES

/* DeepSeek V3 */
#define DEEPSEEK3                                                                                  \
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"                                    \
        "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES

#define CJK "[\\x{4E00}-\\x{9FA5}\\x{0800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{0964}\\x{06D4}\\x{060C})]+"

/* Kimi: all letters and marks that are not Han; case parts as in UPPER and LOWER. */
#define NOT_HAN "\\p{Han}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}"
#define KIMI_UPPER "[^" NOT_HAN "\\p{Ll}]"
#define KIMI_LOWER "[^" NOT_HAN "\\p{Lu}\\p{Lt}]"

/* The cased letters of DeepSeek LLM, as its tokenizer lists them. */
#define DEEPSEEK_CASED                                                                             \
        "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}"             \
        "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}"     \
        "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}"              \
        "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}"                   \
        "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"             \
        "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"             \
        "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}"             \
        "\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}"     \
        "\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}"    \
        "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"              \
        "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}"               \
        "\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}"    \
        "\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"     \
        "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"              \
        "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"             \
        "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"           \
        "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"     \
        "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"

const struct tok_pretok_row tok_pretok_table[] = {
        {
                .names = "default",
                .rules = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"},
        },
        {
                .names = "minicpm5",
                .flags = TOK_PRETOK_IGNORE_MERGES,
                .rules = {"\\p{N}{1,3}", LLAMA3("\\p{N}+")},
        },
        {
                .names = "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 "
                         "jina-v5-nano",
                .flags = TOK_PRETOK_IGNORE_MERGES | TOK_PRETOK_ADD_BOS,
                .rules = {LLAMA3("\\p{N}{1,3}")},
        },
        {
                .names = "dbrx smaug-bpe glm4 chatglm-bpe",
                .rules = {LLAMA3("\\p{N}{1,3}")},
        },
        {
                .names = "deepseek-llm",
                .rules = {"[\\r\\n]", "\\s?[" DEEPSEEK_CASED "]+",
                        "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}"
                        "\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+",
                        "(?<!\\s)\\s+$", CJK, "\\p{N}+"},
        },
        {
                .names = "deepseek-coder",
                .rules = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, "\\p{N}"},
        },
        {
                .names = "deepseek-v3 hunyuan-dense joyai-llm",
                .rules = {"\\p{N}{1,3}",
                        "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+", DEEPSEEK3},
        },
        {
                .names = "youtu",
                .flags = TOK_PRETOK_IGNORE_MERGES,
                .rules = {"[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+"
                          "|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}\\x{"
                          "FF1A}"
                          "\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+"
                          "|[\\x{3105}-\\x{312F}]+"
                          "|[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
                        CASED(UPPER, LOWER,
                                TAIL_EN "?") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES},
        },
        {
                .names = "falcon",
                .rules = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"},
        },
        {
                .names = "gpt-2 mpt phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de "
                         "jina-v2-code roberta-bpe gigachat a.x-4.0 mellum modern-bert olmo jais "
                         "exaone4 trillion granite-docling",
                .rules = {GPT2},
        },
        {
                .names = "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
                .rules = {"\\p{N}", GPT2},
        },
        {
                .names = "jais-2",
                .rules = {WORDS("\\p{N}{1,3}") "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
                                               "|(?<![^\\S\\r\\n])\\s*[\\r\\n]+"
                                               "|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)"
                                               "|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)"
                                               "|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)"
                                               "|\\s{1}"},
        },
        {
                .names = "gemma4 granite-embed-multi-311m sarvam-moe",
                .flags = TOK_PRETOK_RAW | TOK_PRETOK_ESCAPE,
                .rules = {"[^\\n]+|[\\n]+"},
        },
        {
                .names = "whitespace",
                .flags = TOK_PRETOK_RAW,
                .rules = {"\\S+"},
        },
        {
                .names = "qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 megrez hunyuan grok-2 "
                         "solar-open",
                .rules = {LLAMA3("\\p{N}")},
        },
        {
                .names = "qwen35",
                .rules = {TAIL_EN "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                                  "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES},
        },
        {
                .names = "bloom poro-chat gpt3-finnish",
                .rules = {BLOOM},
        },
        {
                .names = "viking",
                .rules = {BLOOM, "\\p{N}"},
        },
        {
                .names = "tekken",
                .flags = TOK_PRETOK_IGNORE_MERGES | TOK_PRETOK_ADD_BOS,
                .rules = {CASED(UPPER, LOWER, "") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES},
        },
        {
                .names = "exaone-moe",
                .rules = {TAIL_EN "|[^\\r\\n\\p{L}\\p{N}]?"
                                  "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+"
                                  "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?"
                                  "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
        },
        {
                .names = "chameleon",
                .flags = TOK_PRETOK_ADD_BOS,
                .rules = {"<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
                        "([\\t\\n]|    |  )", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]", GPT2},
        },
        {
                .names = "gpt-4o llama4 kanana2 talkie minimax-m2",
                .rules = {O200K},
        },
        {
                .names = "granite-embed-multi-97m",
                .flags = TOK_PRETOK_IGNORE_MERGES,
                .rules = {O200K},
        },
        {
                .names = "tiny_aya cohere2moe",
                .rules = {"@digits", O200K},
        },
        {
                .names = "superbpe",
                .rules = {"\\p{N}+", "@thousands"},
        },
        {
                .names = "bailingmoe bailingmoe2 llada-moe",
                .rules = {"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])"
                          "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
                          "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
        },
        {
                .names = "seed-coder",
                .rules = {WORDS("\\p{N}") "| ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACES},
        },
        {
                .names = "kimi-k2",
                .rules = {"\\p{Han}+|" CASED(KIMI_UPPER, KIMI_LOWER,
                        TAIL_EN "?") "|\\p{N}{1,3}"
                                     "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES},
        },
        {
                .names = "afmoe",
                .rules = {"@groups",
                        "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{F900}-\\x{FAFF}"
                        "\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}\\x{FF65}-\\x{FF9F}"
                        "\\x{2F00}-\\x{2FDF}\\x{0E40}-\\x{0E7F}\\x{0E80}-\\x{0EFF}"
                        "\\x{1780}-\\x{17FF}\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}"
                        "\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+",
                        DEEPSEEK3},
        },
        {
                .names = "laguna",
                .rules = {"[^\\n]+|[\\n]+", LLAMA3("\\p{N}")},
        },
};
const size_t tok_pretok_table_size = ARRAY_SIZE(tok_pretok_table);
