/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that the software HCA does not support. They are defined all the
 * same, so that none of the real libibverbs is called with an object of the
 * software HCA; each fails with EOPNOTSUPP the way libibverbs reports it. None
 * looks at what it is given, so those that report alike are one function.
 */
#include "softverbs/softverbs.h"

#define REFUSED(function, how)                                                 \
	SV_EXPORT extern __typeof__(function)(function)                        \
		__attribute__((alias(#how)))

static void *refused_object(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

REFUSED(ibv_create_ah, refused_object);
REFUSED(ibv_create_ah_from_wc, refused_object);
REFUSED(ibv_import_device, refused_object);
REFUSED(ibv_import_pd, refused_object);
REFUSED(ibv_import_mr, refused_object);
REFUSED(ibv_import_dm, refused_object);

static int refused_error(void)
{
	return sv_result(-EOPNOTSUPP);
}

REFUSED(ibv_destroy_ah, refused_error);
REFUSED(ibv_attach_mcast, refused_error);
REFUSED(ibv_detach_mcast, refused_error);
REFUSED(ibv_resolve_eth_l2_from_gid, refused_error);
REFUSED(ibv_resize_cq, refused_error);
REFUSED(ibv_query_ece, refused_error);
REFUSED(ibv_set_ece, refused_error);

static int refused_minus_one(void)
{
	return sv_minus_one(-EOPNOTSUPP);
}

REFUSED(ibv_init_ah_from_wc, refused_minus_one);

static int refused_rereg(void)
{
	errno = EOPNOTSUPP;
	/* Tells the program that the old region stays valid. */
	return IBV_REREG_MR_ERR_INPUT;
}

REFUSED(ibv_rereg_mr, refused_rereg);

/* Of what could not be imported there is nothing. And no order is promised:
 * memory is filled upwards, but a message that is sent again is written again
 * from its beginning. */
static int refused_nothing(void)
{
	return 0;
}

REFUSED(ibv_unimport_pd, refused_nothing);
REFUSED(ibv_unimport_mr, refused_nothing);
REFUSED(ibv_unimport_dm, refused_nothing);
REFUSED(ibv_query_qp_data_in_order, refused_nothing);
