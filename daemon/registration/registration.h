#pragma once

/* One registration while it is looked after. Inside of the floor. */

#include "hash.h"
#include "health.h"
#include "heap.h"
#include "random.h"
#include "registration-spec.h"
#include "registrations.h"
#include "work-queue.h"

struct interfaces;
struct registration;

/* A registry that registrations are told to, and what is under way there. */
struct lane {
	struct registrations *office;
	char *source;
	struct placement *busy; /* its one call; NULL: none */
	struct heap due;        /* placements that wait, by when they are due */
	struct heap additions;  /* those that nobody misses yet, by when they came */
	unsigned failures;      /* of the registry as a whole, in a row */
	char *error;            /* the last of these; NULL */
	uint64_t again_usec;
	uint64_t answered_usec; /* how long the last call took */
	unsigned late;          /* placements whose leases are over, for their turn does not come */
	bool is_late;           /* that was told */
	uint64_t done[SOURCE_REMOVE + 1], failed[SOURCE_REMOVE + 1];
};

/* The registration in one registry. Times are CLOCK_BOOTTIME; 0: not yet. */
struct placement {
	struct heap_item turn; /* the first member: in line, while it waits for the lane */
	struct heap *line;     /* of the lane; NULL: it does not wait */
	struct registration *registration;
	struct lane *lane;
	char *source, *name, *port; /* port: NULL */
	unsigned version;           /* of the record that first had it */
	bool is_wanted;             /* by the spec */
	bool is_there;
	struct usher_endpoints *told; /* in this run; NULL: nothing */

	struct registration_job *job; /* under way */
	enum source_registration call;
	struct usher_endpoints *telling;
	uint64_t called_usec;

	unsigned failures;
	uint64_t again_usec; /* not before, after a failure */
	char *error;
	uint64_t renew_usec; /* when it is due */
	struct placement_times times;
	uint64_t told_usec, next_usec;
	bool is_late;   /* its lease is over, and nothing fails but the time */
	char *lateness; /* that in words; NULL */
	enum registration_state state;
	uint64_t since_usec;
	enum registration_state said; /* in the log */
};

/* A change of the API on its way to the disk. */
struct proposal {
	struct registration_spec *spec; /* NULL: take it out */
	char *json, *requested_by;
	uint64_t ticket;
};

struct registration {
	UT_hash_handle hh; /* by key */
	struct registrations *office;
	char *service, *id, *key;
	char *json, *requested_by;      /* of the API */
	struct registration_spec *spec; /* NULL: leaving, or trouble says why */
	char *trouble;                  /* why there is no spec, or no endpoint; NULL */

	struct usher_endpoints *endpoint; /* one, ready; NULL: no address */
	struct usher_endpoints *payload;  /* as registries are to have it */
	struct health *health;
	char *shown_id;      /* as the directory calls the same address; NULL: as we do */
	uint64_t shown_usec; /* when that was last looked for */

	struct placement **places;
	size_t place_count;

	struct proposal *proposal;
	uint64_t write_again_usec;
	unsigned write_failures;
	unsigned version; /* of the record; one more for every change of it */
	unsigned written; /* the disk has it, or could not take it */
	unsigned writing; /* on its way, while is_writing */
	unsigned undoing; /* says what was before a change that the disk did not take */

	enum registration_state state;
	uint64_t since_usec;

	bool is_built; /* endpoint is what the spec and the addresses of the node are now */
	bool is_configured, is_leaving;
	bool is_unnamed;  /* its id needs an address, and there is none yet: id is the template */
	bool is_declared; /* while the configuration is gone through: it is there */
	bool has_passed, is_well, is_down, is_held;
	bool is_on_disk;       /* there is a row, or may be */
	bool is_unwritten;     /* that was told */
	bool is_writing;       /* the store has not answered yet */
	bool writing_proposal; /* with the proposal in it */
};

struct registrations {
	sd_event *event;
	struct directory *directory;
	struct store *store;
	struct work_queue *queue;
	struct interfaces *interfaces; /* NULL: not read yet, or interfaces_error says why not */
	int interfaces_error;
	struct config *config;
	struct registration_spec **declared; /* by the configuration */
	size_t declared_count;
	struct registration **all; /* sorted by service and id */
	size_t count, capacity;
	struct registration *by_key; /* the same */
	struct lane **lanes;
	size_t lane_count;
	struct random random;
	registrations_decided decided; /* NULL: nobody asks any more */
	void *decided_userdata;
	uint64_t tickets; /* given so far */
	bool is_stopping;
	sd_event_source *stop_timer;
	void (*stopped)(void *userdata);
	void *stopped_userdata;
};

/* registration.c */
struct registration *registration_new(
		struct registrations *office, const char *service, const char *id);
struct registration *registration_free(struct registration *g);
/* Look at it soon. */
void registration_wake(struct registration *g);
/* Whether a drain holds it back has changed since it was looked at. */
bool registration_hold_has_changed(struct registration *g, uint64_t now_usec);
/* Another spec, or none: takes the reference. */
void registration_set_spec(struct registration *g, struct registration_spec *spec);
/* The state of the worst of its places, and what stands in the way; NULL. */
enum registration_state registration_judge(const struct registration *g, const char **ret_why);
/* One look: the queue's. */
enum work_result registration_reconcile(struct registration *g, uint64_t *ret_again_usec);
struct placement *registration_find_place(const struct registration *g, const char *source);
/* Nobody has ever registered it: it was only asked for, in vain. */
bool registration_is_nothing(const struct registration *g);
/* Whether nobody needs it any more, on disk and in registries. */
bool registration_is_over(const struct registration *g);
void registration_set_text(char **field, const char *text);

/* registration-calls.c: one registry. */
/* Errors: ENOMEM. */
int placement_add(struct registration *g, const char *source, const char *name, const char *port);
struct placement *placement_free(struct placement *p);
/* Decide and act; the time to look again, or USEC_FOREVER: an event comes. */
uint64_t placement_reconcile(struct placement *p, uint64_t now_usec);
/* What its source has been told in this run is forgotten: it is another instance now. */
void placement_forget_told(struct placement *p);

/* lane.c: one registry. */
struct lane *lane_new(struct registrations *office, const char *source);
struct lane *lane_free(struct lane *lane);
/* Wait for the lane; again and again, while it is not one's turn. */
void lane_join(struct placement *p, const struct placement_facts *facts, enum placement_act act,
		uint64_t now_usec);
void lane_leave(struct placement *p, uint64_t now_usec);
/* Nothing is under way there, and p is the first of those who wait. */
bool lane_is_turn(const struct placement *p, uint64_t now_usec);
/* Have the first look whether it can go, if nothing is under way. */
void lane_wake(struct lane *lane, uint64_t now_usec);
void lane_start(struct placement *p, uint64_t now_usec);
void lane_stop(struct placement *p, uint64_t now_usec); /* answered, or forgotten */
/* The registry as a whole has failed, or has answered. */
void lane_note_failure(struct lane *lane, const char *error, uint64_t now_usec);
void lane_note_contact(struct lane *lane);
/* Whether the lease of p is over for nothing but the time that the registry takes. */
void lane_note_late(struct placement *p, bool is_late, uint64_t now_usec);
/* Nothing that waits is nearly late: that may be told. */
void lane_look_at_time(struct lane *lane, uint64_t now_usec);

/* registration-record.c: what the disk has. */
char *registration_record_write(const struct registration *g, const struct proposal *proposal);
/* Fill in a new registration from its record. Errors: EBADMSG, ENOMEM. */
int registration_record_read(struct registration *g, const char *json, struct usher_error *reterr);
/* The proposal is on disk, or refused: make it so or drop it, and say it. */
void registration_end_proposal(struct registration *g, int r, const char *reason);
/* Write what has changed; the time to try again, or USEC_FOREVER. */
uint64_t registration_record_commit(struct registration *g, uint64_t now_usec);

/* registrations.c */
struct lane *registrations_lane(struct registrations *r, const char *source); /* NULL: no memory */
struct source *registrations_source(const struct registrations *r, const char *name);
void registrations_forget_registration(struct registration *g); /* out of the list, and free */
void registrations_look_at_stop(struct registrations *r);
