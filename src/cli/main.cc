// penstock: NFS over RDMA in user space. See README.md.
#include <penstock_version.h>

#include <cstdio>
#include <cstdlib>

#include "base/workers.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  const int code = penstock::cli::RunProgram(argc, argv, "penstock " PENSTOCK_VERSION);
  if (penstock::Workers::have_left_threads()) {
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}
