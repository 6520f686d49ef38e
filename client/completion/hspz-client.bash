# bash completion of hspz-client and hspzd. Commands, options and the values that may be chosen are
# asked of the program's own --help, so that they are always its own.

# Options of a help on standard input, a line each, with what follows them, if anything does.
_hspz_options() {
    sed '/^Example:/,$d' | grep -oE -- \
        '(^|[[ (])--[a-z][a-z0-9_-]*( ([A-Z][A-Z0-9_]*|[a-z0-9.][a-z0-9.-]*(\|[A-Za-z0-9.-]+)+))?' |
        sed 's/^[[ (]*//'
}

# Sets COMPREPLY for the value of an option, by the word that stands for it: a|b|c, FILE, DIR.
_hspz_value() {
    case $1 in
    *'|'*) COMPREPLY=($(compgen -W "${1//|/ }" -- "$cur")) ;;
    FILE | PATH) COMPREPLY=($(compgen -f -- "$cur")) ;;
    DIR | FOLDER) COMPREPLY=($(compgen -d -- "$cur")) ;;
    NAME) if [[ $prev == --index ]]; then _hspz_indexes; fi ;;
    FILTER) _hspz_filters ;;
    esac
    return 0
}

# Completes the value of the option before; false when that takes none. The usage comes first in a
# help, and says less of a value than what follows.
_hspz_after_option() {
    local option value found=
    while read -r option value; do
        if [[ $option == "$prev" && -n $value ]]; then
            found=$value
        fi
    done <<<"$options"
    [[ -n $found ]] && _hspz_value "$found"
}

# Names of the server's indexes, if one answers soon.
_hspz_indexes() {
    COMPREPLY=($(compgen -W "$("$program" --timeout 1 index list 2>/dev/null |
        sed '/^#/d; s/\t.*//')" -- "$cur"))
}

# Names of the filters that it shows, likewise.
_hspz_filters() {
    COMPREPLY=($(compgen -W "$("$program" --timeout 1 filter list 2>/dev/null |
        sed '/^#/d; s/\t.*//')" -- "$cur"))
}

# Puts the word to complete into cur, what stands before it into prev; `--name=` is as `--name `.
_hspz_words() {
    program=${COMP_WORDS[0]} cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = && $COMP_CWORD -ge 2 ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
}

_hspz_client() {
    local program cur prev help options command='' operands=0 i word
    COMPREPLY=()
    _hspz_words
    help=$("$program" --help 2>/dev/null) || return 0
    local common names
    common=$(sed -n '/^Options of every/,$p' <<<"$help" | _hspz_options)
    names=$(sed -n '/^Options of every/,$d; s/^  \([a-z][a-z -]*[a-z]\)  .*/\1/p' <<<"$help")
    # The command, which options and their values may stand before.
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == -* ]]; then
            if grep -q -- "^$word " <<<"$common"; then
                ((i++))
            fi
        elif [[ -z $command ]]; then
            command=$word
        elif [[ $command == index || $command == filter || $command == kmers ]]; then
            command="$command $word"
        else
            ((operands++))
        fi
    done
    options=$common
    case $command in
    '') ;;
    index) ;;
    filter | kmers)
        names=$("$program" "$command" --help 2>/dev/null |
            sed -n "s/^  \([a-z]*\) .*/$command \1/p")
        ;;
    *) options=$("$program" $command --help 2>/dev/null | _hspz_options)$'\n'$common ;;
    esac
    if _hspz_after_option; then
        return 0
    fi
    if [[ $prev == -o ]]; then
        _hspz_value FILE
    elif [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$(sed 's/ .*//' <<<"$options")" -- "$cur"))
    elif [[ -z $command ]]; then
        COMPREPLY=($(compgen -W "$(sed 's/ .*//' <<<"$names" | sort -u)" -- "$cur"))
    elif [[ $command == index || $command == filter || $command == kmers ]]; then
        COMPREPLY=($(compgen -W "$(sed -n "s/^$command //p" <<<"$names")" -- "$cur"))
    else
        case "$command $operands" in
        'discover 0' | 'hsps 0' | 'index describe 0' | 'index unload 0') _hspz_indexes ;;
        'plot 0')
            _hspz_indexes
            COMPREPLY+=($(compgen -f -- "$cur"))
            ;;
        *) COMPREPLY=($(compgen -f -- "$cur")) ;;
        esac
    fi
    return 0
}

_hspzd() {
    local program cur prev options
    COMPREPLY=()
    _hspz_words
    options=$("$program" --help all 2>/dev/null | _hspz_options | grep -v '^--tenants')
    if _hspz_after_option; then
        return 0
    fi
    COMPREPLY=($(compgen -W "$(sed 's/ .*//' <<<"$options")" -- "$cur"))
    return 0
}

complete -o filenames -F _hspz_client hspz-client
complete -o filenames -F _hspzd hspzd
