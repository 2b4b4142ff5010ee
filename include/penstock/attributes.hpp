/**
 * @file
 * Attributes of files and file systems.
 */
#ifndef PENSTOCK_ATTRIBUTES_HPP
#define PENSTOCK_ATTRIBUTES_HPP

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "penstock/penstock.h"

namespace penstock::inline v1 {

/** The type of a file. */
enum class FileType {
  kRegular = PENSTOCK_REGULAR,
  kDirectory = PENSTOCK_DIRECTORY,
  kBlockDevice = PENSTOCK_BLOCK_DEVICE,
  kCharacterDevice = PENSTOCK_CHARACTER_DEVICE,
  kSymlink = PENSTOCK_SYMLINK,
  kSocket = PENSTOCK_SOCKET,
  kFifo = PENSTOCK_FIFO,
  kOther = PENSTOCK_OTHER /**< An attribute directory, or a type of a later version of NFS. */
};

/** Whether an operation follows a symbolic link at the end of its path. */
enum class Symlinks {
  kFollow,  /**< The operation concerns the file that the link leads to. */
  kNoFollow /**< The operation concerns the link itself. */
};

/** A point in time. It has a larger range than the times of std::chrono with nanoseconds. */
struct Time {
  int64_t seconds = 0;      /**< Since 1970-01-01T00:00:00Z. */
  uint32_t nanoseconds = 0; /**< From 0 to 999999999. */

  /** Makes a time of a time of the system's clock. */
  static Time At(std::chrono::sys_time<std::chrono::nanoseconds> time) noexcept {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
    return {seconds.time_since_epoch().count(), static_cast<uint32_t>((time - seconds).count())};
  }
  /** Returns the time of the system's clock. A time that it cannot express becomes its first or last one. */
  std::chrono::sys_time<std::chrono::nanoseconds> ToSystemTime() const noexcept {
    using Nanoseconds = std::chrono::sys_time<std::chrono::nanoseconds>;
    constexpr int64_t kSecond = 1'000'000'000;
    constexpr int64_t kLast = std::numeric_limits<int64_t>::max() / kSecond - 4;
    if (seconds >= kLast) return Nanoseconds::max();
    if (seconds <= -kLast) return Nanoseconds::min();
    return Nanoseconds(std::chrono::nanoseconds(seconds * kSecond + nanoseconds));
  }

  /** Compares the moments. */
  friend auto operator<=>(const Time&, const Time&) = default;
};

/** The attributes of a file (RFC 1813 §2.5, RFC 8881 §5.8). Those that the server has no value for are zero. */
struct Attributes {
  FileType type = FileType::kOther; /**< The type. */
  uint32_t mode = 0;                /**< The twelve mode bits of POSIX. */
  uint32_t links = 0;               /**< How many names it has. */
  std::optional<uint32_t> uid{};    /**< The owner's number. None if the server names the owner by another text. */
  std::optional<uint32_t> gid{};    /**< The group's number, likewise. */
  uint32_t device_major = 0;        /**< For a device. */
  uint32_t device_minor = 0;        /**< For a device. */
  uint64_t length = 0;              /**< The size of the file in octets. */
  uint64_t used = 0;                /**< How many octets of storage it takes. */
  uint64_t file_id = 0;             /**< Its number in its file system: an inode number. */
  uint64_t file_system = 0;         /**< The number of its file system. */
  uint64_t change = 0;              /**< Another value after every change of the file or its attributes. */
  Time accessed{};                  /**< When it was read last. */
  Time modified{};                  /**< When its data changed last. */
  Time changed{};                   /**< When its data or attributes changed last. */
  std::string owner{};              /**< The owner as the server names it: a number or name\@domain. */
  std::string group{};              /**< The group, likewise. Texts of more than 255 octets are left out. */
};

/** Attributes to set. Those that have no value stay as they are. */
struct NewAttributes {
  std::optional<uint32_t> mode{};   /**< The twelve mode bits of POSIX. */
  std::optional<uint32_t> uid{};    /**< The owner. */
  std::optional<uint32_t> gid{};    /**< The group. */
  std::optional<uint64_t> length{}; /**< The size of a regular file: cuts it, or extends it by zeros. */
  std::optional<Time> accessed{};   /**< When it was read last. */
  bool accessed_now = false;        /**< Sets the time of the last access to the server's time. */
  std::optional<Time> modified{};   /**< When its data changed last. */
  bool modified_now = false;        /**< Sets the time of the last modification to the server's time. */
};

/** The space of a file system (RFC 1813 §3.3.18, RFC 8881 §5.8.2). */
struct Space {
  uint64_t total_octets = 0;     /**< What the file system holds. */
  uint64_t free_octets = 0;      /**< What is free. */
  uint64_t available_octets = 0; /**< What is free for this user. */
  uint64_t total_files = 0;      /**< How many files it can hold. */
  uint64_t free_files = 0;       /**< How many more. */
  uint64_t available_files = 0;  /**< How many more of this user. */
};

/** @cond internal */
namespace detail {

inline Time FromC(const penstock_time& time) noexcept { return {time.seconds, time.nanoseconds}; }
inline penstock_time ToC(const Time& time) noexcept { return {time.seconds, time.nanoseconds}; }

inline std::optional<uint32_t> NumberFromC(uint32_t number) noexcept {
  return number == PENSTOCK_NO_ID ? std::nullopt : std::optional(number);
}

inline Attributes FromC(const penstock_attributes& from) {
  Attributes to;
  to.type = static_cast<FileType>(from.type);
  to.mode = from.mode;
  to.links = from.links;
  to.uid = NumberFromC(from.uid);
  to.gid = NumberFromC(from.gid);
  to.device_major = from.device_major;
  to.device_minor = from.device_minor;
  to.length = from.length;
  to.used = from.used;
  to.file_id = from.file_id;
  to.file_system = from.file_system;
  to.change = from.change;
  to.accessed = FromC(from.accessed);
  to.modified = FromC(from.modified);
  to.changed = FromC(from.changed);
  to.owner = from.owner;
  to.group = from.group;
  return to;
}

inline penstock_new_attributes ToC(const NewAttributes& from) noexcept {
  penstock_new_attributes to = PENSTOCK_NEW_ATTRIBUTES_INIT;
  const auto set = [&to](auto& place, const auto& value, unsigned bit) {
    if (!value) return;
    place = *value;
    to.set |= bit;
  };
  set(to.mode, from.mode, PENSTOCK_SET_MODE);
  set(to.uid, from.uid, PENSTOCK_SET_UID);
  set(to.gid, from.gid, PENSTOCK_SET_GID);
  set(to.length, from.length, PENSTOCK_SET_LENGTH);
  if (from.accessed) {
    to.accessed = ToC(*from.accessed);
    to.set |= PENSTOCK_SET_ACCESSED;
  }
  if (from.accessed_now) to.set |= PENSTOCK_SET_ACCESSED_NOW;
  if (from.modified) {
    to.modified = ToC(*from.modified);
    to.set |= PENSTOCK_SET_MODIFIED;
  }
  if (from.modified_now) to.set |= PENSTOCK_SET_MODIFIED_NOW;
  return to;
}

}  // namespace detail
/** @endcond */

}  // namespace penstock::inline v1

#endif
