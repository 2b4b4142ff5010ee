// The interface of a security mechanism, with the parts of GSS-API (RFC 2743) that RPCSEC_GSS needs. kerberos.h
// implements it. Tests have an implementation without a KDC.
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

// The major status codes on the wire: RFC 2203 appendix A.
inline constexpr uint32_t kComplete = 0;
inline constexpr uint32_t kContinueNeeded = 1;
inline constexpr uint32_t kDuplicateToken = 2;  // qualifies an error
inline constexpr uint32_t kBadMechanism = 0x0001'0000;
inline constexpr uint32_t kBadBindings = 0x0004'0000;
inline constexpr uint32_t kBadMic = 0x0006'0000;
inline constexpr uint32_t kNoContext = 0x0008'0000;
inline constexpr uint32_t kDefectiveToken = 0x0009'0000;
inline constexpr uint32_t kDefectiveCredential = 0x000a'0000;
inline constexpr uint32_t kContextExpired = 0x000c'0000;
inline constexpr uint32_t kFailure = 0x000d'0000;

struct Failure {
  uint32_t major = kFailure;
  uint32_t minor = 0;
  std::string text{};  // for the log
  // Another attempt may succeed, because a service in the network did not answer.
  bool may_pass = false;
};

template <class T>
using Result = penstock::Result<T, Failure>;

// A checksum that fits into a verifier.
struct Mic {
  std::array<std::byte, rpcmsg::MAX_AUTH_BYTES> room;
  size_t size = 0;

  ConstBytes bytes() const { return ConstBytes(room).first(size); }
};

// The octets of a wrapped message before and behind its text.
struct WrapRoom {
  size_t before = 0;
  size_t behind = 0;
};

// The client at the other end of an established context.
struct Initiator {
  GssInitiator names;
  // The user of this host to whom the initiator maps, or kNobody.
  uint32_t uid = kNobody;
  uint32_t gid = kNobody;
  // nullopt means no limit.
  std::optional<Duration> lifetime;
};

// Protects the messages of an established context. Any thread may use it, one at a time. All functions use the default
// quality of protection, and require it of received messages.
class MessageProtection {
 public:
  virtual ~MessageProtection() = default;

  virtual Result<void> VerifyMic(ConstBytes message, ConstBytes mic) = 0;
  virtual Result<void> GetMic(ConstBytes message, Mic& mic) = 0;
  virtual Result<WrapRoom> RoomToWrap(size_t octets) = 0;
  // Encrypts in place. `message` is the text with the room from RoomToWrap() around it.
  virtual Result<void> Wrap(Bytes message, const WrapRoom& room) = 0;
  // Decrypts in place, and returns the text within `message`. Fails if the message is not encrypted.
  virtual Result<Bytes> Unwrap(Bytes message) = 0;
};

// One context of an acceptor. Any thread may use it, one at a time.
class MechanismContext : public MessageProtection {
 public:
  struct Step {
    uint32_t major = kComplete;  // kComplete or kContinueNeeded
    uint32_t minor = 0;
    std::vector<std::byte> token;  // for the initiator; may be empty
  };
  // Processes a token of the initiator. May block.
  virtual Result<Step> Accept(ConstBytes token) = 0;

  // GetInitiator() and the functions of MessageProtection require that Accept() has returned kComplete.

  // May block.
  virtual Result<Initiator> GetInitiator() = 0;
};

// One context of an initiator. Any thread may use it, one at a time.
class InitiatingContext : public MessageProtection {
 public:
  struct Step {
    bool complete = false;  // the context needs no more tokens of the acceptor
    // For the acceptor. Empty: the acceptor needs none.
    std::vector<std::byte> token;
  };
  // Processes a token of the acceptor and makes the next one. The first call has no token. May block. The error's text
  // is for users: it says which step failed, and what they can try.
  virtual Result<Step> Initiate(ConstBytes token) = 0;

  // The functions of MessageProtection require that Initiate() has completed.

  // The time for which the context can be used. nullopt means no limit. Requires that Initiate() has completed.
  virtual std::optional<Duration> lifetime() const = 0;
  // The printable name of the initiator, such as "alice@EXAMPLE.ORG". Requires that Initiate() has completed.
  virtual std::string initiator() const = 0;
};

// Makes the contexts of one initiator with one acceptor. Thread-safe. It outlives the contexts.
class InitiatingMechanism {
 public:
  virtual ~InitiatingMechanism() = default;
  virtual std::unique_ptr<InitiatingContext> Begin() = 0;
  // The initiator, as far as it is known before a context is made, and the acceptor, such as "nfs@server.example.org",
  // for users.
  virtual std::string Initiator() const = 0;
  virtual std::string Acceptor() const = 0;
  // Returns a text for users about an acceptor that has refused a token with these codes (RFC 2203 §5.2.3).
  virtual std::string Explain(uint32_t major, uint32_t minor) const = 0;
};

// Makes contexts. Thread-safe.
class Mechanism {
 public:
  virtual ~Mechanism() = default;
  virtual std::unique_ptr<MechanismContext> Begin() = 0;
};

}  // namespace penstock::rpc::gss
