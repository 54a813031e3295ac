# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completion of confab for bash: "confab __complete" says what the word may become (client/cli-complete.c).

_confab()
{
        # bash divides words at = and : and @, and keeps quotes. What stands together in the line is one word here,
        # and the last one ends at the cursor.
        local rest=$COMP_LINE trimmed piece at i words=()
        for ((i = 0; i <= COMP_CWORD; i++)); do
                piece=${COMP_WORDS[i]}
                trimmed=${rest#"${rest%%[![:space:]]*}"}
                at=$((COMP_POINT - ${#COMP_LINE} + ${#trimmed}))
                ((i < COMP_CWORD)) || piece=${piece:0:at > 0 ? at : 0}
                if ((i == 0)) || [[ $rest == [[:space:]]* ]]; then
                        words+=("$piece")
                else
                        words[-1]+=$piece
                fi
                rest=${trimmed#"${COMP_WORDS[i]}"}
        done

        # What bash replaces is the last piece alone, without = or : but with @ in front of it.
        local word=${words[-1]} kept quote=
        [[ $piece == [=:]* ]] && piece=${piece#?}
        kept=${word%"$piece"}
        kept=${kept%@}
        kept=${kept//[\\\"\']/}
        [[ $piece == [\"\']* ]] && quote=${piece:0:1}

        COMPREPLY=()
        local answer found file prefix typed=${word//[\\\"\']/}
        while IFS= read -r answer; do
                case $answer in
                /*)
                        compopt -o filenames # bash knows how those are quoted
                        prefix=${answer#/}
                        while IFS= read -r file; do
                                found=$prefix$file
                                found=${found#"$kept"}
                                # a folder goes on; bash sees by itself only what has nothing in front
                                [[ $found != "$file" && -d $file ]] && found+=/ && compopt -o nospace
                                COMPREPLY+=("$found")
                        done < <(compgen -f -- "${typed#"$prefix"}")
                        ;;
                =*)
                        found=${answer#=}
                        found=${found%%$'\t'*}
                        found=${found#"$kept"}
                        [[ $quote ]] || printf -v found %q "$found"
                        [[ $quote && $found == *"$quote"* ]] || COMPREPLY+=("$found")
                        [[ $found == *= ]] && compopt -o nospace # a value follows
                        ;;
                esac
        done < <("${COMP_WORDS[0]}" __complete bash -- "${words[@]:1}" 2>/dev/null)
}

complete -F _confab confab
