# Completion of rye for bash. Load it with: source <(rye completion bash)
_rye() {
    local cur="" value help i word rest="${COMP_LINE:0:COMP_POINT}" keep=""
    local -a words=()
    # bash splits words at ":" and "=" too: what stands together in the line is put together again.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word="${COMP_WORDS[i]}"
        if [[ $i -gt 0 && $rest != [[:space:]]* ]]; then
            words[${#words[@]}-1]+="$word"
        else
            rest="${rest#"${rest%%[![:space:]]*}"}"
            words+=("$word")
        fi
        rest="${rest#"$word"}"
    done
    cur="${words[${#words[@]}-1]}"
    # A reply replaces only what follows the last separator, so the part before it is cut off again.
    if [[ $cur == *[:=]* && $COMP_WORDBREAKS == *[:=]* ]]; then
        keep="${cur%"${cur##*[:=]}"}"
    fi
    COMPREPLY=()
    while IFS=$'\t' read -r value help; do
        case "$value" in
        :files | :dirs)
            compopt -o filenames 2>/dev/null
            local kind=-f
            [[ $value == :dirs ]] && kind=-d
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen "$kind" -- "${cur#"$keep"}")
            ;;
        *)
            [[ $value == *[:=] ]] && compopt -o nospace 2>/dev/null
            COMPREPLY+=("${value#"$keep"}")
            ;;
        esac
    done < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
}
complete -F _rye rye
