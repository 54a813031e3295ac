# SPDX-License-Identifier: MIT
# Completion of confab for fish: "confab __complete" says what the word may become (client/cli-complete.c).

function __confab_complete
        set -l words (commandline -opc)
        set -l word (commandline -ct)
        # quotes that are open are not taken away by fish
        set -l plain (string unescape -- $word; or string trim -l -c '\'"' -- $word)
        for answer in ($words[1] __complete fish -- $words[2..-1] "$plain" 2>/dev/null)
                switch $answer
                        case '/*'
                                set -l prefix (string sub -s 2 -- $answer)
                                set -l typed (string sub -s (math (string length -- "$prefix") + 1) -- $plain)
                                for file in (__fish_complete_path "$typed")
                                        echo -- $prefix$file
                                end
                        case '=*'
                                string sub -s 2 -- $answer
                end
        end
end

complete -c confab -f -a '(__confab_complete)'
