#pragma once

/* The servers of tests/lib/health_servers.py, for as long as a test program runs. */

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define HEALTH_SERVERS_MAX 64

static struct health_servers {
	char folder[64];
	pid_t pid;
	int input; /* their end is when it ends */
	struct {
		char name[32];
		unsigned short port;
	} ports[HEALTH_SERVERS_MAX];
	size_t count;
} health_servers;

__attribute__((unused)) static unsigned short port_of(const char *name)
{
	for (size_t i = 0; i < health_servers.count; i++)
		if (strcmp(health_servers.ports[i].name, name) == 0)
			return health_servers.ports[i].port;
	fail_msg("there is no server %s", name);
	return 0;
}

/* A file of theirs, such as "ca.pem". Good until the eighth call from now. */
__attribute__((unused)) static char *server_file(const char *name)
{
	static char texts[8][128];
	static unsigned turn;
	char *text = texts[turn++ % 8];

	(void) snprintf(text, sizeof(texts[0]), "%s/%s", health_servers.folder, name);
	return text;
}

__attribute__((unused)) static int health_servers_start(void **state)
{
	struct health_servers *s = &health_servers;
	int input[2], output[2];
	char word[64] = "";
	unsigned port;
	FILE *f;

	(void) state;
	(void) snprintf(s->folder, sizeof(s->folder), "/tmp/usher-health-XXXXXX");
	assert_non_null(mkdtemp(s->folder));
	assert_return_code(pipe2(input, O_CLOEXEC), errno);
	assert_return_code(pipe2(output, O_CLOEXEC), errno);
	s->pid = fork();
	assert_true(s->pid >= 0);
	if (s->pid == 0) {
		(void) dup2(input[0], STDIN_FILENO);
		(void) dup2(output[1], STDOUT_FILENO);
		execl("/usr/bin/python3", "python3", "-B",
				USHER_TREE "/tests/lib/health_servers.py", s->folder,
				(char *) NULL);
		_exit(127);
	}
	(void) close(input[0]);
	(void) close(output[1]);
	s->input = input[1];

	f = fdopen(output[0], "r");
	assert_non_null(f);
	while (fscanf(f, "%63s", word) == 1 && strcmp(word, "ready") != 0) {
		assert_true(s->count < HEALTH_SERVERS_MAX);
		assert_int_equal(fscanf(f, "%u", &port), 1);
		(void) snprintf(s->ports[s->count].name, sizeof(s->ports[0].name), "%.31s", word);
		s->ports[s->count++].port = (unsigned short) port;
	}
	assert_string_equal(word, "ready");
	(void) fclose(f);
	return 0;
}

__attribute__((unused)) static int health_servers_stop(void **state)
{
	char command[128];

	(void) state;
	(void) close(health_servers.input);
	assert_int_equal(waitpid(health_servers.pid, NULL, 0), health_servers.pid);
	(void) snprintf(command, sizeof(command), "rm -rf %s", health_servers.folder);
	return system(command);
}
