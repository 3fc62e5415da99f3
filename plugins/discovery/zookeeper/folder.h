#pragma once

/* The node of a service as ZooKeeper has it, and the nodes of its instances below.
 *
 * The list of names and each one's data are read apart, each with a watch that tells of the next
 * change and is then gone. A folder is settled when nothing of it has to be read: then it is what
 * ZooKeeper had at some point, and whatever changes is told before anything else is. Data that
 * cannot be read leave the endpoint as it was: one writer's mistake takes nothing out of service.
 */

#include <usher/endpoint.h>

#include "protocol.h"

#define ZK_NODES_MAX USHER_ENDPOINTS_MAX /* below one folder */

struct zk_node {
	char *name;
	char *data, *good; /* the newest, and what could be read before, where they cannot be */
	size_t data_size, good_size;
	int64_t mzxid;
	int32_t acl_version;
	bool is_known;  /* there is an answer about its data */
	bool is_denied; /* which was: not for you */
	bool is_armed;  /* a change of it will be told */
	bool needs_get, is_asked;
	bool is_good; /* data could be read as an endpoint */
	bool is_told; /* the log knows that they cannot */
};

struct zk_folder {
	char *path;
	struct zk_node *nodes; /* in the order of their names */
	size_t count;
	size_t needed, cursor; /* nodes to be asked for; where to look for the next */
	size_t asked;          /* of them, without an answer yet */
	int64_t zxid;          /* of the youngest change that is known of */
	int64_t pzxid;         /* of the youngest change of the list */
	int32_t acl_version;
	bool needs_list, is_asked;
	bool is_armed;   /* the list is watched */
	bool is_awaited; /* it does not exist, and its coming is watched for */
	bool is_missing;
	bool is_complete; /* it has been settled once */
};

/* ENOMEM: path is copied. */
int zk_folder_init(struct zk_folder *f, const char *path);
void zk_folder_done(struct zk_folder *f);

bool zk_folder_is_settled(const struct zk_folder *f);
/* Nothing is being asked any more; all that was is to be asked again. again: whatever was watched
 * is not watched any more, so everything has to be read. */
void zk_folder_lose(struct zk_folder *f, bool again);

/* The names below it, out of the answer to ZK_GET_CHILDREN2. Errors: EBADMSG, E2BIG, ENOMEM. */
int zk_folder_list(struct zk_folder *f, struct jute_in *in, struct zk_stat *ret_stat,
		struct usher_error *reterr);
/* It is not there. */
void zk_folder_miss(struct zk_folder *f);

/* The next node that has to be read and was not asked for, or NULL. */
struct zk_node *zk_folder_next(struct zk_folder *f);
void zk_folder_asked(struct zk_folder *f, struct zk_node *node);
/* By its path; NULL: it is not of this folder, or not known any more. */
struct zk_node *zk_folder_find(const struct zk_folder *f, const char *path);
void zk_folder_need(struct zk_folder *f, struct zk_node *node);
/* The answer about the data of a node. Errors: EBADMSG, ENOMEM. */
int zk_folder_take(struct zk_folder *f, const char *path, int code, struct jute_in *in,
		struct usher_error *reterr);

/* What ZK_EXISTS says of the folder, or of one of its nodes: true where nothing is other than
 * known; else it is to be read again. A watch proves nothing by its silence, and servers do not
 * tell those who may not read any more, so what is watched is looked at, too. */
bool zk_folder_check(struct zk_folder *f, int code, struct jute_in *in);
bool zk_folder_check_node(struct zk_folder *f, const char *path, int code, struct jute_in *in);

/* How many may not be read by us. */
size_t zk_folder_denied(const struct zk_folder *f);
/* What the nodes say. `service` is for the log. Errors: EACCES, EBADMSG (there are nodes, and none
 * can be read), E2BIG, ENOMEM. */
int zk_folder_build(struct zk_folder *f, const char *service, const char *port,
		struct usher_endpoints **ret, struct usher_error *reterr);
