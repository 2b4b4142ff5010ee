// A program in front of another program. A subclass overrides the methods that it changes; every other method forwards
// to the inner program.
#pragma once

#include "rpc/dispatch.h"

namespace penstock::rpc {

class ForwardingProgram : public Program {
 public:
  uint32_t number() const override { return inner_.number(); }
  VersionRange versions() const override { return inner_.versions(); }
  Classification Classify(CallContext& context, xdr::Decoder& arguments) const override {
    return inner_.Classify(context, arguments);
  }
  void Preview(CallContext& context, xdr::Decoder& arguments) const override { inner_.Preview(context, arguments); }
  Task<AcceptStatus> Call(CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override {
    return inner_.Call(context, arguments, results);
  }

  void HandleFailure(const CallContext& context) const override { inner_.HandleFailure(context); }

 protected:
  // `inner` outlives this program.
  explicit ForwardingProgram(Program& inner) : inner_(inner) {}
  Program& inner() { return inner_; }

 private:
  Program& inner_;
};

}  // namespace penstock::rpc
