# fish completion for usherctl; usherctl itself knows what can stand where.

function __usherctl_complete
    set -l words (commandline -opc)
    set -l candidates ($words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null)
    if test "$candidates[1]" = ":files"
        __fish_complete_path (commandline -ct)
        return
    end
    printf '%s\n' $candidates
end

complete -c usherctl -f -a '(__usherctl_complete)'
