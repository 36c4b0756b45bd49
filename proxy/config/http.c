/* SPDX-License-Identifier: Apache-2.0 */
/* [metrics]: an address that others reach wants to know who asks. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "config/finish.h"

int mpib_config_listen(const char *text, struct sockaddr_in *sin, char *why)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	char addr[INET_ADDRSTRLEN] = "";
	uint64_t port;

	if (len < sizeof(addr))
		memcpy(addr, text, len);
	*sin = (struct sockaddr_in){ .sin_family = AF_INET };
	if (colon && mpib_number(colon + 1, 0, UINT16_MAX, &port) &&
	    inet_pton(AF_INET, addr, &sin->sin_addr) == 1) {
		sin->sin_port = htons((uint16_t)port);
		return 0;
	}
	return mpib_why_fail(
		why, -EINVAL,
		"metrics.listen = \"%.64s\": not an IPv4 address and port "
		"(give 127.0.0.1:9495)",
		text);
}

static int http_fault(const struct mpib_config *cfg, const char *key,
		      const char *value, const char *bad, char *why)
{
	return mpib_why_fail(why, -EINVAL, "%s: metrics.%s = %.256s: %s",
			     mpib_config_origin(cfg, "metrics", key), key,
			     value, bad);
}

/* What is wrong with a file, or NULL. Its owner is checked when it is read, as that
 * of peer.key_file is. */
static const char *file_fault(const char *path, bool secret)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == EACCES ? NULL
				       : "there is no such file (make it, or "
					 "leave the setting empty)";
	if (!S_ISREG(st.st_mode))
		return "it is no regular file (name one)";
	if (secret && st.st_mode & 077)
		return "others can read or write it (chmod 600)";
	return NULL;
}

static int check_files(const struct mpib_config *cfg, char *why)
{
	const struct {
		const char *key, *path;
		bool secret;
	} files[] = {
		{ "cert", cfg->metrics_cert, false },
		{ "key", cfg->metrics_key, true },
		{ "token_file", cfg->metrics_token_file, true },
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const char *bad = files[i].path[0] ? file_fault(files[i].path,
								files[i].secret)
						   : NULL;

		if (bad)
			return http_fault(cfg, files[i].key, files[i].path, bad,
					  why);
	}
	return 0;
}

int mpib_config_http(struct mpib_config *cfg, char *why)
{
	const char *key = cfg->metrics_cert[0] ? "cert" : "key";
	char reason[MPIB_WHY_MAX];
	struct sockaddr_in sin;

	if (!cfg->metrics_listen[0])
		return 0;
	if (mpib_config_listen(cfg->metrics_listen, &sin, reason) < 0)
		return mpib_why_fail(
			why, -EINVAL, "%s: %.400s",
			mpib_config_origin(cfg, "metrics", "listen"), reason);
	if (!cfg->metrics_cert[0] != !cfg->metrics_key[0])
		return http_fault(cfg, key,
				  cfg->metrics_cert[0] ? cfg->metrics_cert
						       : cfg->metrics_key,
				  "TLS wants a certificate and its key (give "
				  "both, cert and key)",
				  why);
	if (ntohl(sin.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET &&
	    (!cfg->metrics_token_file[0] || !cfg->metrics_cert[0]))
		return http_fault(cfg, "listen", cfg->metrics_listen,
				  "others than this machine reach it (give "
				  "token_file, cert and key, too, or "
				  "127.0.0.1:9495)",
				  why);
	return check_files(cfg, why);
}
