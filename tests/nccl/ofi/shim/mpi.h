/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MPI functions that the functional tests of aws-ofi-nccl call, for two
 * ranks on one machine. A communicator is a mailbox for each rank, in memory
 * that both ranks map (the file $MPI_FILE). Each call is one exchange between
 * the two mailboxes. $MPI_RANK is 0 or 1.
 */
#ifndef MPIB_NCCL_OFI_MPI_H
#define MPIB_NCCL_OFI_MPI_H

#include <stddef.h>

typedef int MPI_Comm;
typedef int MPI_Datatype; /* size of an element in bytes */
typedef int MPI_Op;
typedef int MPI_Info;
typedef struct {
	int unused;
} MPI_Status;

enum {
	MPI_SUCCESS = 0,
	MPI_COMM_WORLD = 0,
	MPI_COMM_TYPE_SHARED = 1,
	MPI_THREAD_MULTIPLE = 3,
	MPI_MAX_PROCESSOR_NAME = 256,
	MPI_INFO_NULL = 0,
	MPI_MIN = 1,
	MPI_DATATYPE_NULL = 0,
	MPI_CHAR = 1,
	MPI_BYTE = 1,
	MPI_INT = 4,
};

#define MPI_IN_PLACE NULL
#define MPI_STATUS_IGNORE NULL

int MPI_Init(void *argc, void *argv);
int MPI_Init_thread(void *argc, void *argv, int wanted, int *provided);
int MPI_Finalize(void);
int MPI_Comm_rank(MPI_Comm comm, int *rank);
int MPI_Comm_size(MPI_Comm comm, int *size);
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out);
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info,
			MPI_Comm *out);
int MPI_Comm_free(MPI_Comm *comm);
int MPI_Get_processor_name(char *name, int *len);
int MPI_Barrier(MPI_Comm comm);
/* Only in-place calls are supported. */
int MPI_Allgather(const void *out, int sent, MPI_Datatype out_type, void *in,
		  int count, MPI_Datatype type, MPI_Comm comm);
/* Only one int and MPI_MIN are supported. */
int MPI_Allreduce(const void *mine, void *least, int count, MPI_Datatype type,
		  MPI_Op op, MPI_Comm comm);
int MPI_Sendrecv(const void *out, int sent, MPI_Datatype out_type, int to,
		 int out_tag, void *in, int count, MPI_Datatype type, int from,
		 int in_tag, MPI_Comm comm, MPI_Status *status);
/* Both ranks send first, so store the data, and exchange it in the next
 * receive. */
int MPI_Send(const void *out, int count, MPI_Datatype type, int to, int tag,
	     MPI_Comm comm);
int MPI_Recv(void *in, int count, MPI_Datatype type, int from, int tag,
	     MPI_Comm comm, MPI_Status *status);

#endif
