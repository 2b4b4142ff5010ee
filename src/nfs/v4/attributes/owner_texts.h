// The owners and groups of one request as text (RFC 8881 §5.9, RFC 7530 §5.9). As with Linux, the flavor of the call
// decides: under RPCSEC_GSS, client and server exchange name@domain; under other flavors, which carry numbers in the
// credential as well, the server sends numbers and accepts both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "base/task.h"
#include "idmap/mapper.h"
#include "nfs/v4/state/settings.h"
#include "protocol/nfs4_types.h"
#include "rpc/dispatch.h"
#include "xdr/encoder.h"

namespace penstock::nfs::v4 {

// A request looks each id up once, and uses the same text for it to the end. Look-ups may be slow, so a reply that must
// not wait between its parts is made in two steps: Load*(), then Encode*(). Belongs to the request.
class OwnerTexts {
 public:
  // Numbers.
  OwnerTexts() = default;
  // `mapper` and `call` outlive the object.
  OwnerTexts(const idmap::Mapper& mapper, const Settings& settings, const rpc::CallContext& call);

  // Loads the texts if that needs no wait. Otherwise returns false. Numbers need no loading.
  bool LoadAtOnce(uint32_t uid, uint32_t gid);
  // Without an answer from the host's databases, the text is the number.
  Task<> LoadUser(uint32_t uid) { return Load(idmap::Kind::kUser, users_, uid); }
  Task<> LoadGroup(uint32_t gid) { return Load(idmap::Kind::kGroup, groups_, gid); }
  Task<> Load(uint32_t uid, uint32_t gid);

  // Whether a text is a number because a database did not answer in time.
  bool lacks_answers() const { return lacks_answers_; }

  // Encode the loaded text, or else the number.
  void EncodeUser(xdr::Encoder& to, uint32_t uid) const { Encode(to, users_, uid); }
  void EncodeGroup(xdr::Encoder& to, uint32_t gid) const { Encode(to, groups_, gid); }

  // Return the id of an owner or group that the client sends. NFS4ERR_BADOWNER: the text has no translation, or it is a
  // number under RPCSEC_GSS although this server has names. NFS4ERR_DELAY: the databases did not answer in time.
  Task<Result<uint32_t, nfs4::nfsstat4>> UserOf(std::string_view owner) { return IdOf(idmap::Kind::kUser, owner); }
  Task<Result<uint32_t, nfs4::nfsstat4>> GroupOf(std::string_view group) { return IdOf(idmap::Kind::kGroup, group); }

 private:
  using Texts = std::unordered_map<uint32_t, std::string>;

  bool LoadAtOnce(idmap::Kind kind, Texts& texts, uint32_t id) const;
  Task<> Load(idmap::Kind kind, Texts& texts, uint32_t id);
  static void Encode(xdr::Encoder& to, const Texts& texts, uint32_t id);
  Task<Result<uint32_t, nfs4::nfsstat4>> IdOf(idmap::Kind kind, std::string_view text);

  // Made by the first look-up, so that a request without names does no work for it.
  idmap::Caller& caller();

  const idmap::Mapper* mapper_ = nullptr;
  const rpc::Peer* peer_ = nullptr;
  bool sends_names_ = false;
  bool accepts_numbers_ = true;
  bool lacks_answers_ = false;
  std::optional<idmap::Caller> caller_{};
  Texts users_;
  Texts groups_;
};

}  // namespace penstock::nfs::v4
