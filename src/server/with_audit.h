// Programs in front of others that serve the audit log (fs/audited/audit_log.h).
#pragma once

#include <string>

#include "fs/audited/audit_log.h"
#include "rpc/forwarding_program.h"

namespace penstock::server {

// Tells the audit log the address of each connection, which its records name.
class WithAudit final : public rpc::ForwardingProgram {
 public:
  // Both outlive this object.
  WithAudit(rpc::Program& program, fs::audited::AuditLog& log) : ForwardingProgram(program), log_(log) {}

  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override {
    log_.Know(context.peer.connection, context.peer.address.address());
    return inner().Call(context, arguments, results);
  }

 private:
  fs::audited::AuditLog& log_;
};

// Adds a record for each MNT of MOUNT.
class WithAuditOfMounts final : public rpc::ForwardingProgram {
 public:
  // Both outlive this object.
  WithAuditOfMounts(rpc::Program& program, fs::audited::AuditLog& log) : ForwardingProgram(program), log_(log) {}

  Task<rpc::AcceptStatus> Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) override;

 private:
  Task<rpc::AcceptStatus> Mount(rpc::CallContext& context, std::string path, xdr::Decoder& arguments,
                                xdr::Encoder& results);

  fs::audited::AuditLog& log_;
};

}  // namespace penstock::server
