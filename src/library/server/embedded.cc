#include "library/server/embedded.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>

#include "base/log.h"
#include "base/random.h"
#include "fs/names.h"
#include "library/server/embedded_call.h"

namespace penstock::library {
namespace {

using fs::Error;
using fs::FileType;

constexpr size_t kLongestLink = 4096;  // of a symbolic link
constexpr size_t kLongestXattr = 64 << 10;
constexpr size_t kMostXattrs = 64 << 10;  // of one object
constexpr uint32_t kNanoseconds = 1'000'000'000;

thread_local int depth_of_calls = 0;

bool ChangesNothing(const penstock_file_system_ops& ops) {
  return !ops.set_attributes && !ops.write && !ops.create && !ops.make_directory && !ops.make_symlink &&
         !ops.make_node && !ops.remove && !ops.remove_directory && !ops.rename && !ops.link && !ops.set_xattr &&
         !ops.remove_xattr && !ops.allocate && !ops.deallocate && !ops.copy;
}

uint64_t NextVolume() {
  // The directories that a server exports have the numbers of file systems as their volumes, so these are high.
  static std::atomic<uint64_t> next = uint64_t{0x656d6265} << 32;
  return next++;
}

uint64_t RandomNumber() {
  std::array<std::byte, 8> octets{};
  FillRandomly(octets);
  return LoadBig<uint64_t>(octets.data());
}

std::string AddressText(const IpAddress& address) { return address.is_unspecified() ? "" : address.to_string(); }

std::optional<FileType> TypeOf(penstock_file_type type) {
  switch (type) {
    case PENSTOCK_REGULAR:
      return FileType::kRegular;
    case PENSTOCK_DIRECTORY:
      return FileType::kDirectory;
    case PENSTOCK_BLOCK_DEVICE:
      return FileType::kBlock;
    case PENSTOCK_CHARACTER_DEVICE:
      return FileType::kCharacter;
    case PENSTOCK_SYMLINK:
      return FileType::kSymlink;
    case PENSTOCK_SOCKET:
      return FileType::kSocket;
    case PENSTOCK_FIFO:
      return FileType::kFifo;
    case PENSTOCK_OTHER:
      break;
  }
  return std::nullopt;
}

}  // namespace

bool IsInEmbeddedFunction() { return depth_of_calls > 0; }
InEmbeddedFunction::InEmbeddedFunction() { ++depth_of_calls; }
InEmbeddedFunction::~InEmbeddedFunction() { --depth_of_calls; }

Embedded::Embedded(const penstock_file_system_ops& ops, void* self, const penstock_file_system_options& options)
    : ops_(ops),
      self_(self),
      options_(options),
      read_only_(ChangesNothing(ops)),
      volume_(NextVolume()),
      verifier_(RandomNumber()) {}

Embedded::~Embedded() {
  const InEmbeddedFunction in_function;
  if (ops_.destroy) ops_.destroy(self_);
}

void Embedded::Blame(std::string_view function, std::string_view what) const {
  if (!told_.Allows(std::chrono::steady_clock::now())) return;
  log::error("the file system of the host has a mistake: {} {}", function, what);
}

EmbeddedCalls::EmbeddedCalls(const Embedded& files, const fs::RequestContext& context)
    : files_(files),
      context_(context),
      address_(AddressText(context.address)),
      caller_{.size = sizeof(penstock_caller),
              .uid = context.credentials.uid,
              .gid = context.credentials.gid,
              .groups = context.credentials.groups.data(),
              .group_count = context.credentials.groups.size(),
              .address = address_.c_str()} {}

std::unexpected<Error> EmbeddedCalls::Fault(std::string_view function, std::string_view what) const {
  files_.Blame(function, what);
  return std::unexpected(Error::kServerFault);
}

fs::Result<fs::Attributes> EmbeddedCalls::Checked(const char* name, const penstock_attributes& from) const {
  const std::optional<FileType> type = TypeOf(from.type);
  if (!type) return Fault(name, fmt::format("has returned the type {}", static_cast<int>(from.type)));
  for (const penstock_time* each : {&from.accessed, &from.modified, &from.changed}) {
    if (each->nanoseconds >= kNanoseconds) {
      return Fault(name, fmt::format("has returned a time with {} nanoseconds", each->nanoseconds));
    }
  }
  if (from.length > INT64_MAX) return Fault(name, fmt::format("has returned a length of {}", from.length));
  const auto time = [](const penstock_time& t) { return fs::Timestamp{t.seconds, t.nanoseconds}; };
  fs::Attributes attributes;
  attributes.type = *type;
  attributes.mode = from.mode & 07777;
  attributes.nlink = from.links;
  attributes.uid = from.uid;
  attributes.gid = from.gid;
  attributes.size = from.length;
  attributes.used = from.used;
  attributes.rdev = {from.device_major, from.device_minor};
  attributes.fileid = from.file_id;
  attributes.atime = time(from.accessed);
  attributes.mtime = time(from.modified);
  attributes.ctime = time(from.changed);
  attributes.change = from.change;
  if (from.change == 0) {
    attributes.change = static_cast<uint64_t>(from.changed.seconds) * kNanoseconds + from.changed.nanoseconds;
  }
  return attributes;
}

fs::Result<penstock_handle> EmbeddedCalls::Root() {
  return Find("root", [&](penstock_handle* root) { return files_.ops().root(files_.self(), root); });
}

fs::Result<fs::Attributes> EmbeddedCalls::GetAttributes(const penstock_handle& object) {
  penstock_attributes attributes = PENSTOCK_ATTRIBUTES_INIT;
  PENSTOCK_CHECK(
      Do("get_attributes", [&] { return files_.ops().get_attributes(files_.self(), &caller_, &object, &attributes); }));
  return Checked("get_attributes", attributes);
}

fs::Result<void> EmbeddedCalls::SetAttributes(const penstock_handle& object, const penstock_new_attributes& values) {
  return Do("set_attributes", [&] { return files_.ops().set_attributes(files_.self(), &caller_, &object, &values); });
}

fs::Result<penstock_handle> EmbeddedCalls::Lookup(const penstock_handle& directory, const std::string& name) {
  return Find("lookup", [&](penstock_handle* found) {
    return files_.ops().lookup(files_.self(), &caller_, &directory, name.c_str(), found);
  });
}

fs::Result<std::string> EmbeddedCalls::ReadLink(const penstock_handle& symlink) {
  if (!files_.ops().read_link) return std::unexpected(Error::kNotSupported);
  std::string text(kLongestLink, '\0');
  PENSTOCK_TRY(const FromHost length, Call("read_link", [&] {
                 return files_.ops().read_link(files_.self(), &caller_, &symlink, text.data(), text.size());
               }));
  if (length > static_cast<FromHost>(text.size())) {
    return Fault("read_link", fmt::format("has returned a length of {} for {} octets", length, text.size()));
  }
  text.resize(static_cast<size_t>(length));
  if (text.empty() || text.find('\0') != text.npos) return Fault("read_link", "has returned a text that is no path");
  return text;
}

fs::Result<size_t> EmbeddedCalls::Read(const penstock_handle& file, Bytes into, uint64_t offset) {
  PENSTOCK_TRY(const FromHost count, Call("read", [&] {
                 return files_.ops().read(files_.self(), &caller_, &file, into.data(), into.size(), offset);
               }));
  if (static_cast<uint64_t>(count) > into.size()) {
    return Fault("read", fmt::format("has returned {} octets for {}", count, into.size()));
  }
  return static_cast<size_t>(count);
}

fs::Result<size_t> EmbeddedCalls::Write(const penstock_handle& file, ConstBytes data, uint64_t offset,
                                        fs::Stability& stability) {
  auto done = static_cast<penstock_stability>(stability);
  PENSTOCK_TRY(const FromHost count, Call("write", [&] {
                 return files_.ops().write(files_.self(), &caller_, &file, data.data(), data.size(), offset, &done);
               }));
  if (count == 0 || static_cast<uint64_t>(count) > data.size()) {
    return Fault("write", fmt::format("has returned {} octets for {}", count, data.size()));
  }
  if (done < PENSTOCK_UNSTABLE || done > PENSTOCK_FILE_SYNC) {
    return Fault("write", fmt::format("has set the stability {}", static_cast<int>(done)));
  }
  stability = static_cast<fs::Stability>(done);
  return static_cast<size_t>(count);
}

fs::Result<void> EmbeddedCalls::Commit(const penstock_handle& file) {
  if (!files_.ops().commit) return {};
  return Do("commit", [&] { return files_.ops().commit(files_.self(), &caller_, &file); });
}

uint64_t EmbeddedCalls::WriteVerifier() {
  if (!files_.ops().write_verifier) return files_.verifier();
  uint64_t verifier = 0;
  const auto ask = [&] {
    verifier = files_.ops().write_verifier(files_.self());
    return 0;
  };
  // If it throws, clients must not take their data for stable.
  return Do("write_verifier", ask) ? verifier : RandomNumber();
}

fs::Result<fs::AccessMask> EmbeddedCalls::Access(const penstock_handle& object, fs::AccessMask wanted) {
  uint32_t granted = 0;
  PENSTOCK_CHECK(Do("access", [&] { return files_.ops().access(files_.self(), &caller_, &object, wanted, &granted); }));
  return granted & wanted;
}

fs::Result<fs::Space> EmbeddedCalls::GetSpace(const penstock_handle& object) {
  penstock_space space = PENSTOCK_SPACE_INIT;
  if (files_.ops().get_space) {
    PENSTOCK_CHECK(Do("get_space", [&] { return files_.ops().get_space(files_.self(), &caller_, &object, &space); }));
  }
  return fs::Space{.total_bytes = space.total_octets,
                   .free_bytes = space.free_octets,
                   .available_bytes = space.available_octets,
                   .total_files = space.total_files,
                   .free_files = space.free_files,
                   .available_files = space.available_files};
}

fs::Result<std::vector<std::byte>> EmbeddedCalls::GetXattr(const penstock_handle& object, const std::string& name) {
  std::vector<std::byte> value(kLongestXattr);
  PENSTOCK_TRY(const FromHost length, Call("get_xattr", [&] {
                 return files_.ops().get_xattr(files_.self(), &caller_, &object, name.c_str(), value.data(),
                                               value.size());
               }));
  if (static_cast<uint64_t>(length) > value.size()) {
    return Fault("get_xattr", fmt::format("has returned a length of {} for {} octets", length, value.size()));
  }
  value.resize(static_cast<size_t>(length));
  return value;
}

fs::Result<void> EmbeddedCalls::SetXattr(const penstock_handle& object, const std::string& name, ConstBytes value,
                                         fs::XattrMode mode) {
  const int flags = mode == fs::XattrMode::kCreate    ? PENSTOCK_XATTR_CREATE
                    : mode == fs::XattrMode::kReplace ? PENSTOCK_XATTR_REPLACE
                                                      : 0;
  return Do("set_xattr", [&] {
    return files_.ops().set_xattr(files_.self(), &caller_, &object, name.c_str(), value.data(), value.size(), flags);
  });
}

fs::Result<void> EmbeddedCalls::RemoveXattr(const penstock_handle& object, const std::string& name) {
  return Do("remove_xattr", [&] { return files_.ops().remove_xattr(files_.self(), &caller_, &object, name.c_str()); });
}

fs::Result<std::vector<std::string>> EmbeddedCalls::ListXattrs(const penstock_handle& object) {
  struct Names {
    std::vector<std::string> all{};
    bool bad = false;
  } names;
  const auto add = [](void* context, const char* name) {
    auto& to = *static_cast<Names*>(context);
    to.bad |= !name || !fs::CheckXattrName(name) || to.all.size() == kMostXattrs;
    if (to.bad) return 1;
    to.all.emplace_back(name);
    return 0;
  };
  PENSTOCK_TRY(const FromHost result, Call("list_xattrs", [&] {
                 return files_.ops().list_xattrs(files_.self(), &caller_, &object, add, &names);
               }));
  if (names.bad) return Fault("list_xattrs", "has given a bad name, or too many");
  if (result != 0) return Fault("list_xattrs", fmt::format("has returned {} in place of zero", result));
  std::ranges::sort(names.all);
  return std::move(names.all);
}

fs::Result<fs::SeekReply> EmbeddedCalls::Seek(const penstock_handle& file, uint64_t offset, fs::SeekWhat what,
                                              uint64_t size) {
  uint64_t found = 0;
  const int hole = what == fs::SeekWhat::kHole ? 1 : 0;
  PENSTOCK_TRY(const FromHost result,
               Call("seek", [&] { return files_.ops().seek(files_.self(), &caller_, &file, offset, hole, &found); }));
  if (result > 1 || (result == 1 && found < offset)) {
    return Fault("seek", fmt::format("has returned {} with the offset {}", result, found));
  }
  const bool exists = result == 1 && found < size;
  // The end of a file counts as a hole.
  return fs::SeekReply{.found = exists || hole == 1, .offset = exists ? found : size};
}

fs::Result<void> EmbeddedCalls::Allocate(const penstock_handle& file, uint64_t offset, uint64_t length) {
  return Do("allocate", [&] { return files_.ops().allocate(files_.self(), &caller_, &file, offset, length); });
}

fs::Result<void> EmbeddedCalls::Deallocate(const penstock_handle& file, uint64_t offset, uint64_t length) {
  return Do("deallocate", [&] { return files_.ops().deallocate(files_.self(), &caller_, &file, offset, length); });
}

fs::Result<uint64_t> EmbeddedCalls::Copy(const penstock_handle& from, uint64_t from_offset, const penstock_handle& to,
                                         uint64_t to_offset, uint64_t count) {
  PENSTOCK_TRY(const FromHost copied, Call("copy", [&] {
                 return files_.ops().copy(files_.self(), &caller_, &from, from_offset, &to, to_offset, count);
               }));
  if (copied == 0 || static_cast<uint64_t>(copied) > count) {
    return Fault("copy", fmt::format("has returned {} octets for {}", copied, count));
  }
  return static_cast<uint64_t>(copied);
}

fs::Result<void> EmbeddedCalls::Pin(const penstock_handle& file) {
  return Do("pin", [&] { return files_.ops().pin(files_.self(), &file); });
}

void EmbeddedCalls::Unpin(const penstock_handle& file) {
  const auto unpin = [&] {
    files_.ops().unpin(files_.self(), &file);
    return 0;
  };
  (void)Do("unpin", unpin);  // NOLINT(bugprone-unused-return-value): whatever it throws is in the log
}

}  // namespace penstock::library
