# Completion of rye for fish. Save it as ~/.config/fish/completions/rye.fish.
function __rye_complete
    set -l words (commandline -opc)
    set -l cur (commandline -ct)
    for line in ($words[1] __complete -- $words[2..-1] "$cur" 2>/dev/null)
        switch $line
            case ':files*'
                __fish_complete_path $cur
            case ':dirs*'
                __fish_complete_directories $cur ''
            case '*'
                echo $line
        end
    end
end
complete -c rye -f -a '(__rye_complete)'
