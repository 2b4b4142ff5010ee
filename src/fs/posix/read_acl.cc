#include "fs/posix/read_acl.h"

#include <sys/xattr.h>

#include <cerrno>

#include "fs/errno.h"
#include "fs/posix/path.h"

namespace penstock::fs::posix {

Result<Acl> ReadAcl(int fd, const char* name) {
  std::vector<std::byte> octets(64 << 10);
  const ssize_t size = ::getxattr(ProcPath(fd).c_str(), name, octets.data(), octets.size());
  if (size < 0 && (errno == ENODATA || errno == EOPNOTSUPP)) return Acl{};
  if (size < 0) return LastError();
  return AclOfOctets(ConstBytes(octets).first(static_cast<size_t>(size)));
}

}  // namespace penstock::fs::posix
