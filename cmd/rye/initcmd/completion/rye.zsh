#compdef rye
# Completion of rye for zsh. Save it as _rye in a directory of $fpath.
_rye() {
    local line value
    local -a found
    for line in "${(@f)$("$words[1]" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        value="${line%%$'\t'*}"
        case "$value" in
        '') ;;
        :files) compset -P '*='; _files ;;
        :dirs) compset -P '*='; _files -/ ;;
        *) found+=("${value//:/\\:}:${line#*$'\t'}") ;;
        esac
    done
    (( $#found )) && _describe -V rye found
}
if [[ "$funcstack[1]" == _rye ]]; then
    _rye "$@"
else
    compdef _rye rye
fi
