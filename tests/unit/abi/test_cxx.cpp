/* SPDX-License-Identifier: Apache-2.0 */
/* The public headers that support C++ compile and link in a C++ program. */
#include <cstring>

#include <mpib/client.h>
#include <mpib/control.h>
#include <mpib/vqp.h>

int main()
{
	char dir[128];
	struct mpib_client *client = nullptr;
	struct mpib_attach_opts opts = {};

	static_assert(sizeof(struct mpib_handle) == 128, "travels as is");
	opts.size = sizeof(opts);
	opts.run_dir = "/nonexistent";
	if (mpib_attach(&opts, &client) == 0 || client)
		return 1;
	if (!std::strstr(mpib_strerror(), "/nonexistent"))
		return 1;
	mpib_run_dir(dir, sizeof(dir));

	struct mpib_wr_pool pool;
	struct mpib_vcq *vcq;
	struct mpib_vwc wc;

	if (mpib_wr_pool_init(&pool) < 0 ||
	    mpib_vcq_create(nullptr, 0, &pool, &vcq) < 0 ||
	    mpib_vcq_poll(vcq, 1, &wc) != 0)
		return 1;
	mpib_vcq_destroy(vcq);
	mpib_wr_pool_fini(&pool);
	return 0;
}
