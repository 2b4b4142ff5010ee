#include "cli/background.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "base/result.h"
#include "cli/client_runtime.h"

namespace penstock::cli {

Background::~Background() {
  if (parent_ >= 0) ::close(parent_);
}

std::optional<int> Background::Start() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return PrintError("cannot make a pipe: " + DescribeErrno(errno));
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return PrintError("cannot go into the background: " + DescribeErrno(errno));
  if (child == 0) {
    ::close(ends[0]);
    parent_ = ends[1];
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) return 1;
    return std::nullopt;
  }
  ::close(ends[1]);
  char octet = 0;
  ssize_t got = 0;
  do {
    got = ::read(ends[0], &octet, 1);
  } while (got < 0 && errno == EINTR);
  if (got == 1) return 0;
  // The child has ended, after it has said why.
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

void Background::Ready() {
  if (parent_ < 0) return;
  is_away_ = true;
  ::prctl(PR_SET_PDEATHSIG, 0);
  ::setsid();
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, standard);
  if (nowhere > STDERR_FILENO) ::close(nowhere);
  (void)!::chdir("/");
  (void)!::write(parent_, "", 1);
  ::close(parent_);
  parent_ = -1;
}

}  // namespace penstock::cli
