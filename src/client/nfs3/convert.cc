#include "client/nfs3/convert.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>

namespace penstock::client::v3 {
namespace {

std::optional<uint32_t> NumberOf(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

template <class SetTime>
SetTime ToSetTime(const std::variant<ServerTime, Time>& time) {
  if (std::holds_alternative<ServerTime>(time)) return SetTime(nfs3::time_how::SET_TO_SERVER_TIME);
  // RFC 1813 §2.5: 32 bits of seconds since 1970. The nearest time that the protocol has stands for any other.
  const Time& given = std::get<Time>(time);
  const auto seconds = static_cast<uint32_t>(std::clamp<int64_t>(given.seconds, 0, UINT32_MAX));
  return SetTime(nfs3::time_how::SET_TO_CLIENT_TIME,
                 nfs3::nfstime3{seconds, seconds == given.seconds ? given.nanoseconds : 0});
}

Time TimeOf(const nfs3::nfstime3& time) { return {time.seconds, time.nseconds}; }

}  // namespace

Attributes AttributesOf(const nfs3::fattr3& a) {
  return {.type = FileTypeOf(static_cast<uint32_t>(a.type)),
          .mode = a.mode,
          .links = a.nlink,
          .owner = std::to_string(a.uid),
          .group = std::to_string(a.gid),
          .size = a.size,
          .used = a.used,
          .accessed = TimeOf(a.atime),
          .modified = TimeOf(a.mtime),
          .changed = TimeOf(a.ctime),
          .file_id = a.fileid,
          .file_system = a.fsid,
          .device_major = a.rdev.specdata1,
          .device_minor = a.rdev.specdata2,
          .change = uint64_t{a.ctime.seconds} << 32 | a.ctime.nseconds};
}

Result<nfs3::sattr3> ToSattr3(const NewAttributes& attributes, std::string_view what) {
  nfs3::sattr3 to;
  const auto set_number = [&](const std::optional<std::string>& from, auto& field) {
    if (!from) return true;
    const auto number = NumberOf(*from);
    if (number) field = number;
    return number.has_value();
  };
  if (!set_number(attributes.owner, to.uid) || !set_number(attributes.group, to.gid)) {
    return std::unexpected(
        Error{fmt::format("{}: owners and groups are numbers in version 3", what), Status::kInvalid, EINVAL});
  }
  to.mode = attributes.mode;
  to.size = attributes.size;
  if (attributes.accessed) to.atime = ToSetTime<nfs3::set_atime>(*attributes.accessed);
  if (attributes.modified) to.mtime = ToSetTime<nfs3::set_mtime>(*attributes.modified);
  return to;
}

}  // namespace penstock::client::v3
