// Proves that the generated headers compile together.
#include "protocol/mount.h"
#include "protocol/nfs3.h"
#include "protocol/rpc.h"
#include "protocol/rpcrdma.h"
