// SPDX-License-Identifier: Apache-2.0
// The numbers of functions are NCCL's own.
#include "functions.hpp"

#include <map>

namespace
{

using kernel::Function;
using Table = std::map<int, Function>;

void add(Table &table, const Function &f)
{
	table.insert(
		{ ncclDevFuncId(f.coll, f.op, f.type, f.algo, f.protocol), f });
}

Table make_table()
{
	Table table;

	add(table,
	    { ncclFuncSendRecv, 0, 0, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE });
	for (int protocol = 0; protocol < NCCL_NUM_PROTOCOLS; protocol++) {
		for (int coll : { ncclFuncBroadcast, ncclFuncAllGather })
			add(table, { coll, 0, 0, NCCL_ALGO_RING, protocol });
		// For the network, all types and operations are bytes.
		for (int coll : { ncclFuncReduce, ncclFuncReduceScatter,
				  ncclFuncAllReduce })
			add(table, { coll, ncclDevSum, ncclFloat32,
				     NCCL_ALGO_RING, protocol });
	}
	return table;
}

} // namespace

const Function *kernel::function_find(int id)
{
	static const Table table = make_table();
	auto found = table.find(id);

	return found == table.end() ? nullptr : &found->second;
}

std::string kernel::function_name(const Function &f)
{
	return std::string(ncclFuncStr[f.coll]) + " of type " +
	       std::to_string(f.type) + ", operation " + std::to_string(f.op) +
	       ", " + ncclAlgoStr[f.algo] + ", " + ncclProtoStr[f.protocol];
}
