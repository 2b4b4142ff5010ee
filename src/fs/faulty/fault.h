// Faults as values: which calls of a file system go wrong, when, and how. fs::faulty::FileSystem applies them.
//
// An operator writes them as text, separated by commas:  OPERATION:EFFECT[-after][WHEN]
//
//   OPERATION  any, or a name of kOperationNames: read, write, commit, create, lookup, ...
//   EFFECT     eio, enospc, edquot, emfile, estale, ...   the operation fails with this error, and is not carried out
//              slow=2s, slow=..500ms                      it takes 2 s longer; a random time of at most 500 ms longer
//              short, short=N                             read, write and copy move one octet, or at most N octets
//              unreadable                                 read succeeds, but its data cannot be loaded afterwards
//              hang                                       the operation waits until FileSystem::Release()
//              kill                                       the process ends after the operation and before its reply
//   -after     errors, slow and hang apply after the operation was carried out: its caller still gets the failure
//   WHEN       @N the N-th call, /N each N-th call, %P at random with the probability P (0 to 1); without it: each call
//
// For example: write:eio@3,read:slow=2s,commit:kill@1,any:estale%0.01
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/timer.h"
#include "fs/types.h"

namespace penstock::fs::faulty {

// One for each asynchronous method of fs::FileSystem.
enum class Operation : uint8_t {
  kGetAttributes,
  kSetAttributes,
  kLookup,
  kAccess,
  kReadLink,
  kRead,
  kWrite,
  kCommit,
  kCreate,
  kMakeDirectory,
  kMakeSymlink,
  kMakeNode,
  kRemove,
  kRemoveDirectory,
  kRename,
  kLink,
  kReadDirectory,
  kGetSpace,
  kGetQuota,
  kPin,
  kOpenLocks,
  kOpenLease,
  kSeek,
  kAllocate,
  kDeallocate,
  kCopy,
  kClone,
  kAdvise,
  kGetXattr,
  kSetXattr,
  kRemoveXattr,
  kListXattrs,
  kGetAcls,
  kSetAcls,
};

inline constexpr std::array kOperationNames{
    std::pair{Operation::kGetAttributes, std::string_view("getattr")},
    std::pair{Operation::kSetAttributes, std::string_view("setattr")},
    std::pair{Operation::kLookup, std::string_view("lookup")},
    std::pair{Operation::kAccess, std::string_view("access")},
    std::pair{Operation::kReadLink, std::string_view("readlink")},
    std::pair{Operation::kRead, std::string_view("read")},
    std::pair{Operation::kWrite, std::string_view("write")},
    std::pair{Operation::kCommit, std::string_view("commit")},
    std::pair{Operation::kCreate, std::string_view("create")},
    std::pair{Operation::kMakeDirectory, std::string_view("mkdir")},
    std::pair{Operation::kMakeSymlink, std::string_view("symlink")},
    std::pair{Operation::kMakeNode, std::string_view("mknod")},
    std::pair{Operation::kRemove, std::string_view("remove")},
    std::pair{Operation::kRemoveDirectory, std::string_view("rmdir")},
    std::pair{Operation::kRename, std::string_view("rename")},
    std::pair{Operation::kLink, std::string_view("link")},
    std::pair{Operation::kReadDirectory, std::string_view("readdir")},
    std::pair{Operation::kGetSpace, std::string_view("space")},
    std::pair{Operation::kGetQuota, std::string_view("quota")},
    std::pair{Operation::kPin, std::string_view("pin")},
    std::pair{Operation::kOpenLocks, std::string_view("locks")},
    std::pair{Operation::kOpenLease, std::string_view("lease")},
    std::pair{Operation::kSeek, std::string_view("seek")},
    std::pair{Operation::kAllocate, std::string_view("allocate")},
    std::pair{Operation::kDeallocate, std::string_view("deallocate")},
    std::pair{Operation::kCopy, std::string_view("copy")},
    std::pair{Operation::kClone, std::string_view("clone")},
    std::pair{Operation::kAdvise, std::string_view("advise")},
    std::pair{Operation::kGetXattr, std::string_view("getxattr")},
    std::pair{Operation::kSetXattr, std::string_view("setxattr")},
    std::pair{Operation::kRemoveXattr, std::string_view("removexattr")},
    std::pair{Operation::kListXattrs, std::string_view("listxattrs")},
    std::pair{Operation::kGetAcls, std::string_view("getacl")},
    std::pair{Operation::kSetAcls, std::string_view("setacl")},
};

// Selects the calls that go wrong, among those that match Fault::operation and Fault::object.
struct When {
  enum class Kind : uint8_t { kAlways, kNth, kEachNth, kAtRandom };
  Kind kind = Kind::kAlways;
  uint64_t n = 1;          // for kNth and kEachNth; counted from 1
  double probability = 0;  // for kAtRandom
  bool operator==(const When&) const = default;
};

inline When Nth(uint64_t n) { return {.kind = When::Kind::kNth, .n = n}; }
inline When AtRandom(double probability) { return {.kind = When::Kind::kAtRandom, .probability = probability}; }

// The way in which a call goes wrong.
struct Effect {
  enum class Kind : uint8_t {
    kError,       // the operation fails with `error`
    kSlow,        // it takes `delay` longer
    kHang,        // it waits until FileSystem::Release()
    kShort,       // Read, Write and Copy move at most `at_most` octets
    kUnreadable,  // Read succeeds, but its data cannot be loaded: the disk fails after Read
    kKill,        // FileSystem calls Surroundings::kill
  };
  enum class Moment : uint8_t {
    kBefore,  // an operation that fails is not carried out
    kAfter,   // it is carried out, but its caller gets the error
  };
  Kind kind = Kind::kError;
  Moment moment = Moment::kBefore;  // for kError, kSlow and kHang; the others have only one
  Error error = Error::kIo;
  Duration delay{};
  bool random_delay = false;  // between zero and `delay`
  uint32_t at_most = 1;
  bool operator==(const Effect&) const = default;
};

inline Effect FailWith(Error error, Effect::Moment moment = Effect::Moment::kBefore) {
  return {.kind = Effect::Kind::kError, .moment = moment, .error = error};
}
inline Effect Unreadable() { return {.kind = Effect::Kind::kUnreadable}; }
inline Effect Short(uint32_t at_most) { return {.kind = Effect::Kind::kShort, .at_most = at_most}; }
inline Effect Hang() { return {.kind = Effect::Kind::kHang}; }
inline Effect Kill() { return {.kind = Effect::Kind::kKill, .moment = Effect::Moment::kAfter}; }
inline Effect Slow(Duration delay) { return {.kind = Effect::Kind::kSlow, .delay = delay}; }
inline Effect SlowUpTo(Duration delay, Effect::Moment moment) {
  return {.kind = Effect::Kind::kSlow, .moment = moment, .delay = delay, .random_delay = true};
}

struct Fault {
  std::optional<Operation> operation{};  // nullopt: any operation
  When when{};
  Effect effect{};
  std::optional<Handle> object{};  // calls that name this handle; nullopt: calls on any object
  bool operator==(const Fault&) const = default;
};

// Reads the text form. The error names the wrong part and the valid values.
SetupResult<std::vector<Fault>> ParseFaults(std::string_view text);

}  // namespace penstock::fs::faulty
