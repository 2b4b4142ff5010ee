#include "copying/tree.h"

#include <cerrno>

namespace penstock::copying {

Error LocalError(int number) {
  Error error{DescribeErrno(number), std::nullopt, number};
  switch (number) {
    case ENOENT:
      error.status = Status::kNotFound;
      break;
    case EEXIST:
      error.status = Status::kExists;
      break;
    case ENOSPC:
      error.status = Status::kNoSpace;
      break;
    case EPERM:
      error.status = Status::kNotPermitted;
      break;
    default:
      break;
  }
  return error;
}

std::string ReasonOf(const Error& error, std::string_view name) {
  std::string reason = error.message;
  if (reason.starts_with(name) && reason.substr(name.size()).starts_with(": ")) reason.erase(0, name.size() + 2);
  return reason;
}

bool IsFull(const Error& error) {
  constexpr auto kQuota = Status(69);  // NFS3ERR_DQUOT, NFS4ERR_DQUOT
  return error.status == Status::kNoSpace || error.status == kQuota || error.number == ENOSPC || error.number == EDQUOT;
}

bool IsEntryName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && !name.contains('/') && !name.contains('\0');
}

std::string Directory::NameOf(std::string_view entry) const {
  if (name_.empty()) return std::string(entry);
  std::string name = name_;
  if (!name.ends_with('/')) name += '/';
  return name.append(entry);
}

}  // namespace penstock::copying
