# bash completion for usherctl; usherctl itself knows what can stand where.

_usherctl()
{
	local line="${COMP_LINE:0:COMP_POINT}" word candidate prefix
	local -a words candidates

	# bash splits words at : and =, which ids and options have inside; take the line apart anew.
	read -r -a words <<< "$line"
	case "$line" in
	*[[:space:]]) words+=("") ;;
	esac
	word="${words[${#words[@]} - 1]}"
	COMPREPLY=()

	mapfile -t candidates < <("${words[0]}" __complete "${words[@]:1}" 2> /dev/null)
	if [ "${candidates[0]}" = ":files" ]; then
		compopt -o filenames 2> /dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
		return
	fi

	# What bash takes for the word is only what follows the last of its breaks.
	prefix="${word%"${word##*[:=]}"}"
	for candidate in "${candidates[@]}"; do
		COMPREPLY+=("${candidate#"$prefix"}")
		case "$candidate" in
		*/) compopt -o nospace 2> /dev/null ;;
		esac
	done
}

complete -F _usherctl usherctl
