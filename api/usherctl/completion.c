/* usherctl completion: the scripts, which are built in. */

#include <stdio.h>
#include <string.h>

#include "completion-scripts.h"
#include "verbs.h"

int verb_completion(struct ctl *ctl)
{
	static const struct {
		const char *shell;
		const char *script;
	} scripts[] = {
		{ "bash", completion_bash },
		{ "zsh", completion_zsh },
		{ "fish", completion_fish },
	};

	for (size_t i = 0; i < ELEMENTS(scripts); i++) {
		if (strcmp(scripts[i].shell, ctl->arguments[0]) != 0)
			continue;
		(void) fputs(scripts[i].script, stdout);
		return EXIT_DONE;
	}
	return ctl_usage(ctl, "there is no completion for \"%s\": bash, zsh or fish",
			ctl->arguments[0]);
}
