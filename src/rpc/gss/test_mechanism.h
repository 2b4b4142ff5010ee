// For tests and fuzzers: a mechanism without a KDC and without security. It believes any name. Its checksums and
// wrapping detect changes in transit. Its sizes are odd, so that tests exercise padding.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rpc/gss/mechanism.h"
#include "rpc/gss/test_initiator.h"

namespace penstock::rpc::gss::testing {

// The functions that both ends of a context share.
class ToySeal {
 public:
  explicit ToySeal(std::string key) : key_(std::move(key)) {}

  static constexpr size_t kMic = 13;
  static constexpr WrapRoom kRoom{.before = 5, .behind = 6};

  Octets Sum(ConstBytes message) const {
    uint64_t hash = 0xcbf2'9ce4'8422'2325;
    const auto add = [&hash](ConstBytes octets) {
      for (const std::byte octet : octets) hash = (hash ^ static_cast<uint64_t>(octet)) * 0x100'0000'01b3;
    };
    add(AsBytes(key_));
    add(message);
    Octets sum(kMic, std::byte{0xaa});
    StoreBig(sum.data(), hash);
    return sum;
  }
  // Wraps in place.
  void Wrap(Bytes message) const {
    const Bytes text = TextOf(message);
    const Octets sum = Sum(text);
    for (std::byte& octet : text) octet ^= std::byte{0x5a};
    std::ranges::fill(message.first(kRoom.before), std::byte{'w'});
    CopyBytes(message.last(kRoom.behind), ConstBytes(sum).first(kRoom.behind));
  }
  std::optional<Bytes> Unwrap(Bytes message) const {
    if (message.size() < kRoom.before + kRoom.behind || message[0] != std::byte{'w'}) return std::nullopt;
    const Bytes text = TextOf(message);
    for (std::byte& octet : text) octet ^= std::byte{0x5a};
    if (!Equal(message.last(kRoom.behind), ConstBytes(Sum(text)).first(kRoom.behind))) return std::nullopt;
    return text;
  }

 private:
  static Bytes TextOf(Bytes message) {
    return message.subspan(kRoom.before, message.size() - kRoom.before - kRoom.behind);
  }
  std::string key_;
};

// The protection of messages by either end of a context.
template <class Context>
class ToyProtection : public Context {
 public:
  Result<void> VerifyMic(ConstBytes message, ConstBytes mic) override {
    if (!Equal(seal_.Sum(message), mic)) return std::unexpected(Failure{.major = 0x6'0000, .text = "bad MIC"});
    return {};
  }
  Result<void> GetMic(ConstBytes message, Mic& mic) override {
    if (mics_to_give_ == 0) return std::unexpected(Failure{.text = "does not sign"});
    --mics_to_give_;
    const Octets sum = seal_.Sum(message);
    CopyBytes(mic.room, sum);
    mic.size = sum.size();
    return {};
  }
  Result<WrapRoom> RoomToWrap(size_t) override { return ToySeal::kRoom; }
  Result<void> Wrap(Bytes message, const WrapRoom&) override {
    seal_.Wrap(message);
    return {};
  }
  Result<Bytes> Unwrap(Bytes message) override {
    const auto text = seal_.Unwrap(message);
    if (!text) return std::unexpected(Failure{.text = "not wrapped"});
    return *text;
  }

 protected:
  // GetMic() counts `mics_to_give` down, and fails at zero.
  ToyProtection(std::string key, size_t& mics_to_give) : seal_(std::move(key)), mics_to_give_(mics_to_give) {}
  void set_key(std::string key) { seal_ = ToySeal(std::move(key)); }

 private:
  ToySeal seal_;
  size_t& mics_to_give_;
};

// A token is the initiator's name. It rejects the name "mallory".
class ToyMechanism : public Mechanism {
 public:
  std::unique_ptr<MechanismContext> Begin() override { return std::make_unique<ToyContext>(*this); }

  int legs = 1;  // the number of the initiator's tokens for a context
  std::optional<Duration> lifetime;
  bool wraps = true;                 // if false, Wrap() fails
  size_t mics_to_give = ~size_t{0};  // after this number of calls, GetMic() fails
  std::optional<uint32_t> verify_failure;

 private:
  class ToyContext : public ToyProtection<MechanismContext> {
   public:
    explicit ToyContext(ToyMechanism& owner) : ToyProtection({}, owner.mics_to_give), owner_(owner) {}

    Result<Step> Accept(ConstBytes token) override {
      name_ = AsText(token);
      if (name_ == "mallory")
        return std::unexpected(Failure{.major = 0x9'0000, .minor = 7, .text = "defective\ntoken"});
      set_key(name_);
      const bool complete = ++legs_ >= owner_.legs;
      return Step{.major = complete ? kComplete : kContinueNeeded, .minor = 0, .token = Copied(AsBytes("welcome"))};
    }
    Result<gss::Initiator> GetInitiator() override {
      return gss::Initiator{.names = {.name = "toy:" + name_, .display = name_ + "@TOY"},
                            .uid = name_ == "alice" ? 1000u : kNobody,
                            .gid = name_ == "alice" ? 100u : kNobody,
                            .lifetime = owner_.lifetime};
    }
    Result<void> VerifyMic(ConstBytes message, ConstBytes mic) override {
      if (owner_.verify_failure) return std::unexpected(Failure{.major = *owner_.verify_failure, .text = "as asked"});
      return ToyProtection::VerifyMic(message, mic);
    }
    Result<void> Wrap(Bytes message, const WrapRoom& room) override {
      if (!owner_.wraps) return std::unexpected(Failure{.text = "does not wrap"});
      return ToyProtection::Wrap(message, room);
    }

   private:
    ToyMechanism& owner_;
    std::string name_;
    int legs_ = 0;
  };
};

// The initiator's side for gss::ClientContext.
class ToyInitiatingMechanism : public InitiatingMechanism {
 public:
  explicit ToyInitiatingMechanism(std::string name) : name_(std::move(name)) {}

  std::unique_ptr<InitiatingContext> Begin() override {
    ++begun;
    return std::make_unique<ToyContext>(*this);
  }
  std::string Initiator() const override { return name_; }
  std::string Acceptor() const override { return "toy@server"; }
  std::string Explain(uint32_t major, uint32_t) const override {
    return major == 0x9'0000 ? "it does not like the token" : "unknown";
  }

  int legs = 1;  // the number of tokens for a context
  std::optional<Duration> lifetime;
  std::vector<Failure> failures;          // of the next contexts
  std::optional<std::string> other_user;  // the initiator's name of the next contexts
  size_t mics_to_give = ~size_t{0};
  int begun = 0;

 private:
  class ToyContext : public ToyProtection<InitiatingContext> {
   public:
    explicit ToyContext(ToyInitiatingMechanism& owner)
        : ToyProtection(owner.name_, owner.mics_to_give), owner_(owner) {}

    Result<Step> Initiate(ConstBytes token) override {
      if (!owner_.failures.empty()) {
        Failure failure = owner_.failures.front();
        owner_.failures.erase(owner_.failures.begin());
        return std::unexpected(std::move(failure));
      }
      if (sent_ > 0 && AsText(token) != "welcome") return std::unexpected(Failure{.text = "a wrong token"});
      if (sent_++ == owner_.legs) return Step{.complete = true, .token = {}};
      return Step{.complete = false, .token = Copied(AsBytes(owner_.name_))};
    }
    std::optional<Duration> lifetime() const override { return owner_.lifetime; }
    std::string initiator() const override { return owner_.other_user.value_or(owner_.name_); }

   private:
    ToyInitiatingMechanism& owner_;
    int sent_ = 0;
  };
  const std::string name_;
};

class ToyInitiator : public InitiatorMechanism {
 public:
  explicit ToyInitiator(std::string name) : name_(std::move(name)), seal_(name_) {}

  std::optional<Octets> Step(ConstBytes) override { return Copied(AsBytes(name_)); }
  Octets GetMic(ConstBytes message) override { return seal_.Sum(message); }
  bool VerifyMic(ConstBytes message, ConstBytes mic) override { return Equal(seal_.Sum(message), mic); }
  Octets Wrap(ConstBytes message) override {
    Octets wrapped(ToySeal::kRoom.before + message.size() + ToySeal::kRoom.behind);
    CopyBytes(Bytes(wrapped).subspan(ToySeal::kRoom.before), message);
    seal_.Wrap(wrapped);
    return wrapped;
  }
  std::optional<Octets> Unwrap(ConstBytes message) override {
    Octets copy = Copied(message);
    const auto text = seal_.Unwrap(copy);
    if (!text) return std::nullopt;
    return Copied(*text);
  }

 private:
  const std::string name_;
  const ToySeal seal_;
};

}  // namespace penstock::rpc::gss::testing
