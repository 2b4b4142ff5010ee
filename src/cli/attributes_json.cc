#include "cli/attributes_json.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <ctime>

#include "base/utf8.h"

namespace penstock::cli {

std::string_view TypeName(client::FileType type) {
  switch (type) {
    case client::FileType::kRegular:
      return "file";
    case client::FileType::kDirectory:
      return "directory";
    case client::FileType::kSymlink:
      return "symlink";
    case client::FileType::kBlockDevice:
      return "block device";
    case client::FileType::kCharacterDevice:
      return "character device";
    case client::FileType::kSocket:
      return "socket";
    case client::FileType::kFifo:
      return "fifo";
    case client::FileType::kOther:
      break;
  }
  return "other";
}

OrderedJson TimeJson(const client::Time& time) {
  const auto seconds = static_cast<std::time_t>(time.seconds);
  std::tm utc{};
  if (!::gmtime_r(&seconds, &utc)) return time.seconds;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", utc, time.nanoseconds);
}

OrderedJson EntryJson(const std::string& path, const client::Entry& entry) {
  OrderedJson json{{"path", path}};
  if (!IsUtf8(path)) {
    std::string digits;
    for (const char octet : path) digits += fmt::format("{:02x}", static_cast<unsigned char>(octet));
    json["path_octets"] = digits;
  }
  if (entry.is_referral) json["referral"] = true;
  if (!entry.attributes) return json;
  const client::Attributes& a = *entry.attributes;
  json["type"] = TypeName(a.type);
  json["mode"] = fmt::format("{:04o}", a.mode);
  json["links"] = a.links;
  json["owner"] = a.owner;
  json["group"] = a.group;
  json["size"] = a.size;
  json["used"] = a.used;
  json["accessed"] = TimeJson(a.accessed);
  json["modified"] = TimeJson(a.modified);
  json["changed"] = TimeJson(a.changed);
  json["file_id"] = a.file_id;
  json["file_system"] = a.file_system;
  using enum client::FileType;
  if (a.type == kBlockDevice || a.type == kCharacterDevice) json["device"] = {a.device_major, a.device_minor};
  return json;
}

std::string JsonLine(const OrderedJson& object) {
  return object.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace penstock::cli
