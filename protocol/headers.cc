// Proves that the generated headers compile together.
#include "protocol/mount.h"
#include "protocol/nfs3.h"
#include "protocol/nfs4.h"
#include "protocol/nfs4_callback.h"
#include "protocol/nfs4_compound.h"
#include "protocol/rpc.h"
#include "protocol/rpcrdma.h"
#include "protocol/rpcsec_gss.h"
