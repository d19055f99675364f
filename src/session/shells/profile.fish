# What an interactive fish of the user's has, written into the folder $argv[1].
for f in (functions -n)
    if string match -q -- "$HOME/*" (functions --details $f)
        functions $f
    end
end >$argv[1]/text
command /usr/bin/env -0 >$argv[1]/env
