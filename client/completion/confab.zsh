#compdef confab
# SPDX-License-Identifier: MIT
# Completion of confab for zsh: "confab __complete" says what the word may become (client/cli-complete.c).

local answer word
local -a found shown

# the words up to the cursor, without their quotes
for answer in "${(@f)$("${(Q)words[1]}" __complete zsh -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}"; do
        case $answer in
        /*)
                [[ -n ${answer#/} ]] && compset -P "${(b)answer#/}"
                _files
                return
                ;;
        =*)
                word=${${answer#=}%%$'\t'*}
                found+=("$word")
                shown+=("$word${${answer#*$'\t'}:+  -- ${answer#*$'\t'}}")
                ;;
        esac
done
# a value follows what ends with "="
local -a end
[[ -z ${(M)found:#*[^=]} ]] && end=(-S '')
(( $#found )) && compadd -l "${end[@]}" -d shown -a found
