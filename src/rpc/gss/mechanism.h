// What RPCSEC_GSS needs of a security mechanism, as GSS-API has it (RFC 2743). kerberos.h is the one that there is;
// tests have one of their own, without a KDC.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/timer.h"
#include "rpc/auth.h"

namespace penstock::rpc::gss {

// Major status codes as they are sent: RFC 2203 appendix A.
inline constexpr uint32_t kComplete = 0;
inline constexpr uint32_t kContinueNeeded = 1;
inline constexpr uint32_t kNoContext = 0x0008'0000;
inline constexpr uint32_t kContextExpired = 0x000c'0000;
inline constexpr uint32_t kFailure = 0x000d'0000;

struct Failure {
  uint32_t major = kFailure;
  uint32_t minor = 0;
  std::string text;  // for the log
};

template <class T>
using Result = penstock::Result<T, Failure>;

// A checksum as a verifier can carry it.
struct Mic {
  std::array<std::byte, rpcmsg::MAX_AUTH_BYTES> room;
  size_t size = 0;

  ConstBytes bytes() const { return ConstBytes(room).first(size); }
};

// Octets of a wrapped message before and behind its text.
struct WrapRoom {
  size_t before = 0;
  size_t behind = 0;
};

// Who is at the other end of an established context.
struct Initiator {
  GssInitiator names;
  // The user of this host whom that is.
  uint32_t uid = kNobody;
  uint32_t gid = kNobody;
  // None: for ever.
  std::optional<Duration> lifetime;
};

// One context of an acceptor. Used by one thread at a time, not always the same.
class MechanismContext {
 public:
  virtual ~MechanismContext() = default;

  struct Step {
    uint32_t major = kComplete;  // kComplete or kContinueNeeded
    uint32_t minor = 0;
    std::vector<std::byte> token;  // for the initiator; there may be none
  };
  // A token of the initiator. May block.
  virtual Result<Step> Accept(ConstBytes token) = 0;

  // All that follow: after Accept() has given kComplete.

  // May block.
  virtual Result<Initiator> GetInitiator() = 0;

  // All by the default quality of protection, and what comes must have it, too.
  virtual Result<void> VerifyMic(ConstBytes message, ConstBytes mic) = 0;
  virtual Result<void> GetMic(ConstBytes message, Mic& mic) = 0;
  virtual Result<WrapRoom> RoomToWrap(size_t octets) = 0;
  // Encrypts in place: `message` is the text with the room that RoomToWrap() asked for around it.
  virtual Result<void> Wrap(Bytes message, const WrapRoom& room) = 0;
  // Decrypts in place: gives the text within `message`. What came without encryption is refused.
  virtual Result<Bytes> Unwrap(Bytes message) = 0;
};

// Any thread.
class Mechanism {
 public:
  virtual ~Mechanism() = default;
  virtual std::unique_ptr<MechanismContext> Begin() = 0;
};

}  // namespace penstock::rpc::gss
