# What an interactive fish of the user's has, written into the folder $argv[1]: functions that are
# neither fish's own nor prompts nor hooks.
for f in (functions -n)
    set -l from (functions --details $f)
    if string match -q -- "$__fish_data_dir/*" $from; or string match -q 'embedded:*' $from
        continue
    end
    if contains -- $f fish_prompt fish_right_prompt fish_mode_prompt fish_title fish_greeting exit
        continue
    end
    if functions $f | string match -q -r -- '^function .*--on-'
        continue
    end
    functions $f
end >$argv[1]/text
command /usr/bin/env -0 >$argv[1]/env
