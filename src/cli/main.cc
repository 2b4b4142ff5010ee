// penstock: NFS over RDMA in user space. See README.md.
#include <penstock_version.h>

#include "cli/program.h"

int main(int argc, char** argv) { return penstock::cli::RunProgram(argc, argv, "penstock " PENSTOCK_VERSION); }
