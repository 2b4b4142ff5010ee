#include "library/attributes.h"

#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "library/error_text.h"
#include "library/structures.h"

namespace penstock::library {
namespace {

penstock_file_type TypeOf(client::FileType type) {
  switch (type) {
    case client::FileType::kRegular:
      return PENSTOCK_REGULAR;
    case client::FileType::kDirectory:
      return PENSTOCK_DIRECTORY;
    case client::FileType::kSymlink:
      return PENSTOCK_SYMLINK;
    case client::FileType::kBlockDevice:
      return PENSTOCK_BLOCK_DEVICE;
    case client::FileType::kCharacterDevice:
      return PENSTOCK_CHARACTER_DEVICE;
    case client::FileType::kSocket:
      return PENSTOCK_SOCKET;
    case client::FileType::kFifo:
      return PENSTOCK_FIFO;
    case client::FileType::kOther:
      break;
  }
  return PENSTOCK_OTHER;
}

// The number that a server of version 3, or of version 4 with numbers for names (RFC 7530 §5.9), gives.
uint32_t NumberOf(std::string_view owner) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(owner.data(), owner.data() + owner.size(), number);
  const bool is_number = error == std::errc() && end == owner.data() + owner.size();
  return is_number ? number : PENSTOCK_NO_ID;
}

template <size_t kSize>
void CopyIfItFits(std::string_view from, char (&to)[kSize]) {
  if (from.size() < kSize) std::memcpy(to, from.data(), from.size());
}

penstock_time Convert(client::Time time) { return {time.seconds, time.nanoseconds}; }

using NewTime = std::optional<std::variant<client::ServerTime, client::Time>>;

// Takes one of the two times. `set` and `now` are its bits in `which`.
int TakeTime(unsigned which, unsigned set, unsigned now, penstock_time time, NewTime& to) {
  if ((which & set) && (which & now)) return Fail(EINVAL, "a time cannot be set to a value and to now");
  if (which & now) to = client::ServerTime{};
  if (!(which & set)) return 0;
  if (time.nanoseconds > 999'999'999) return Fail(EINVAL, "a time has more than 999999999 nanoseconds");
  to = client::Time{.seconds = time.seconds, .nanoseconds = time.nanoseconds};
  return 0;
}

}  // namespace

penstock_attributes ConvertAttributes(const client::Attributes& attributes) {
  penstock_attributes converted = PENSTOCK_ATTRIBUTES_INIT;
  converted.type = TypeOf(attributes.type);
  converted.mode = attributes.mode;
  converted.links = attributes.links;
  converted.uid = NumberOf(attributes.owner);
  converted.gid = NumberOf(attributes.group);
  converted.device_major = attributes.device_major;
  converted.device_minor = attributes.device_minor;
  converted.length = attributes.size;
  converted.used = attributes.used;
  converted.file_id = attributes.file_id;
  converted.file_system = attributes.file_system;
  converted.change = attributes.change;
  converted.accessed = Convert(attributes.accessed);
  converted.modified = Convert(attributes.modified);
  converted.changed = Convert(attributes.changed);
  CopyIfItFits(attributes.owner, converted.owner);
  CopyIfItFits(attributes.group, converted.group);
  return converted;
}

int TakeNewAttributes(const penstock_new_attributes* from, client::NewAttributes& to) {
  constexpr unsigned kKnown = PENSTOCK_SET_MODE | PENSTOCK_SET_UID | PENSTOCK_SET_GID | PENSTOCK_SET_LENGTH |
                              PENSTOCK_SET_ACCESSED | PENSTOCK_SET_ACCESSED_NOW | PENSTOCK_SET_MODIFIED |
                              PENSTOCK_SET_MODIFIED_NOW;
  if (!from) return Fail(EINVAL, "an argument is null");
  penstock_new_attributes given = PENSTOCK_NEW_ATTRIBUTES_INIT;
  if (const int wrong = TakeStructure(from, given); wrong != 0) return wrong;
  if (given.set & ~kKnown) return Fail(EINVAL, "unknown attributes are to be set");
  if ((given.set & PENSTOCK_SET_MODE) && given.mode > 07777) return Fail(EINVAL, "a mode has twelve bits");
  if (given.set & PENSTOCK_SET_MODE) to.mode = given.mode;
  if (given.set & PENSTOCK_SET_UID) to.owner = std::to_string(given.uid);
  if (given.set & PENSTOCK_SET_GID) to.group = std::to_string(given.gid);
  if (given.set & PENSTOCK_SET_LENGTH) to.size = given.length;
  if (const int wrong =
          TakeTime(given.set, PENSTOCK_SET_ACCESSED, PENSTOCK_SET_ACCESSED_NOW, given.accessed, to.accessed);
      wrong != 0) {
    return wrong;
  }
  return TakeTime(given.set, PENSTOCK_SET_MODIFIED, PENSTOCK_SET_MODIFIED_NOW, given.modified, to.modified);
}

}  // namespace penstock::library
