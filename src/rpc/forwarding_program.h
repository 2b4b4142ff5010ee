// A program before another one: what it does not do itself is the other's.
#pragma once

#include "rpc/dispatch.h"

namespace penstock::rpc {

class ForwardingProgram : public Program {
 public:
  uint32_t number() const override { return inner_.number(); }
  VersionRange versions() const override { return inner_.versions(); }
  bool IsIdempotent(uint32_t version, uint32_t procedure) const override {
    return inner_.IsIdempotent(version, procedure);
  }
  bool IsHarmfulLate(uint32_t version, uint32_t procedure) const override {
    return inner_.IsHarmfulLate(version, procedure);
  }
  bool MeetsDuplicates(uint32_t version, uint32_t procedure, ConstBytes arguments) const override {
    return inner_.MeetsDuplicates(version, procedure, arguments);
  }
  bool PlacesItems(uint32_t version, uint32_t procedure, xdr::Decoder& arguments) const override {
    return inner_.PlacesItems(version, procedure, arguments);
  }
  bool AcceptsFlavor(AuthFlavor flavor, uint32_t version, uint32_t procedure) const override {
    return inner_.AcceptsFlavor(flavor, version, procedure);
  }
  Task<AcceptStatus> Call(CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override {
    return inner_.Call(context, arguments, results);
  }

 protected:
  // `inner` outlives it.
  explicit ForwardingProgram(Program& inner) : inner_(inner) {}
  Program& inner() { return inner_; }

 private:
  Program& inner_;
};

}  // namespace penstock::rpc
