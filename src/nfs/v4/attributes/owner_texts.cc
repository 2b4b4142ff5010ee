#include "nfs/v4/attributes/owner_texts.h"

#include <charconv>
#include <iterator>
#include <optional>

#include "rpc/client_key.h"

namespace penstock::nfs::v4 {

using nfs4::nfsstat4;

OwnerTexts::OwnerTexts(const idmap::Mapper& mapper, const Settings& settings, const rpc::CallContext& call)
    : mapper_(&mapper), peer_(&call.peer) {
  const bool is_gss = call.credential.flavor == rpc::AuthFlavor::RPCSEC_GSS;
  sends_names_ = mapper.has_names() && (is_gss || settings.names_for_all);
  // Otherwise a client could set owners by number and evade the mapping of names (RFC 8881 §5.9, RFC 7530 §5.9).
  accepts_numbers_ = !(mapper.has_names() && is_gss);
}

idmap::Caller& OwnerTexts::caller() {
  if (!caller_) {
    caller_.emplace();
    if (peer_) *caller_ = {.loop = peer_->loop, .client = rpc::ClientKeyOf(*peer_)};
  }
  return *caller_;
}

bool OwnerTexts::LoadAtOnce(uint32_t uid, uint32_t gid) {
  if (!sends_names_) return true;
  return LoadAtOnce(idmap::Kind::kUser, users_, uid) && LoadAtOnce(idmap::Kind::kGroup, groups_, gid);
}

bool OwnerTexts::LoadAtOnce(idmap::Kind kind, Texts& texts, uint32_t id) const {
  if (texts.contains(id)) return true;
  auto text = mapper_->KnownTextOf(kind, id);
  if (!text) return false;
  texts.emplace(id, *std::move(text));
  return true;
}

Task<> OwnerTexts::Load(uint32_t uid, uint32_t gid) {
  co_await LoadUser(uid);
  co_await LoadGroup(gid);
}

Task<> OwnerTexts::Load(idmap::Kind kind, Texts& texts, uint32_t id) {
  if (!sends_names_ || texts.contains(id)) co_return;
  auto text = co_await mapper_->TextOf(kind, id, caller());
  if (!text) lacks_answers_ = true;
  texts.emplace(id, text ? *std::move(text) : std::to_string(id));
}

void OwnerTexts::Encode(xdr::Encoder& to, const Texts& texts, uint32_t id) {
  if (const auto found = texts.find(id); found != texts.end()) return to.String(found->second);
  char digits[10];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), id).ptr;
  to.String({digits, static_cast<size_t>(end - digits)});
}

Task<Result<uint32_t, nfsstat4>> OwnerTexts::IdOf(idmap::Kind kind, std::string_view text) {
  const idmap::Mapper numbers;
  const idmap::Mapper& mapper = mapper_ ? *mapper_ : numbers;
  const auto id = co_await mapper.IdOf(kind, text, accepts_numbers_, caller());
  if (!id) co_return std::unexpected(nfs4::NFS4ERR_DELAY);
  if (!*id) co_return std::unexpected(nfs4::NFS4ERR_BADOWNER);
  co_return **id;
}

}  // namespace penstock::nfs::v4
