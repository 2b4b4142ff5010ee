#include "nfs/v4/dialect/dialect.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// RFC 7530 §13
constexpr ErrorWords kErrorsOfRfc7530{.reply_too_big = NFS4ERR_RESOURCE,
                                      .reply_too_big_to_keep = NFS4ERR_RESOURCE,
                                      .opener_misplaced = NFS4ERR_OP_ILLEGAL,
                                      .not_alone = NFS4ERR_OP_ILLEGAL,
                                      .without_opener = NFS4ERR_OP_ILLEGAL,
                                      .too_many_operations = NFS4ERR_RESOURCE,
                                      .no_saved_filehandle = NFS4ERR_RESTOREFH,
                                      .not_a_symlink = NFS4ERR_INVAL,
                                      .symlink_has_no_data = NFS4ERR_INVAL,
                                      .special_has_no_data = NFS4ERR_INVAL,
                                      .special_cannot_be_opened = NFS4ERR_SYMLINK,
                                      .symlink_is_no_directory = NFS4ERR_NOTDIR,
                                      .no_room = NFS4ERR_RESOURCE,
                                      .no_room_until_close = NFS4ERR_RESOURCE,
                                      .stateid_of_earlier_run = NFS4ERR_STALE_STATEID,
                                      .client_is_gone = NFS4ERR_EXPIRED,
                                      .wrong_principal = NFS4ERR_BAD_STATEID};
// RFC 8881 §15
constexpr ErrorWords kErrorsOfRfc8881{.reply_too_big = NFS4ERR_REP_TOO_BIG,
                                      .reply_too_big_to_keep = NFS4ERR_REP_TOO_BIG_TO_CACHE,
                                      .opener_misplaced = NFS4ERR_SEQUENCE_POS,
                                      .not_alone = NFS4ERR_NOT_ONLY_OP,
                                      .without_opener = NFS4ERR_OP_NOT_IN_SESSION,
                                      .too_many_operations = NFS4ERR_TOO_MANY_OPS,
                                      .no_saved_filehandle = NFS4ERR_NOFILEHANDLE,
                                      .not_a_symlink = NFS4ERR_WRONG_TYPE,
                                      .symlink_has_no_data = NFS4ERR_SYMLINK,
                                      .special_has_no_data = NFS4ERR_WRONG_TYPE,
                                      .special_cannot_be_opened = NFS4ERR_WRONG_TYPE,
                                      .symlink_is_no_directory = NFS4ERR_SYMLINK,
                                      .no_room = NFS4ERR_DELAY,
                                      .no_room_until_close = NFS4ERR_NOSPC,
                                      .stateid_of_earlier_run = NFS4ERR_BAD_STATEID,
                                      .client_is_gone = NFS4ERR_DEADSESSION,
                                      .wrong_principal = NFS4ERR_WRONG_CRED};
// The errors of RFC 7530, except where sessions replace a mechanism: draft-talpey-nfsv4-rdma-sess-01 §2.2.4, §2.7 (no
// NFS4ERR_RESOURCE), §6.4.
constexpr ErrorWords kErrorsOfSess01 = [] {
  ErrorWords errors = kErrorsOfRfc7530;
  errors.reply_too_big = errors.reply_too_big_to_keep = NFS4ERR_TOOSMALL;
  errors.opener_misplaced = errors.not_alone = errors.without_opener = NFS4ERR_SESS01_CONTROL_POS;
  errors.too_many_operations = NFS4ERR_SESS01_CONTROL_POS;
  errors.no_room = NFS4ERR_DELAY;
  errors.no_room_until_close = NFS4ERR_NOSPC;
  errors.client_is_gone = NFS4ERR_SESS01_BADSESSION;
  return errors;
}();

}  // namespace

constexpr DialectFacts kFactsOfRfc7530{.name = "RFC 7530",
                                       .minor_version = MinorVersion(0),
                                       .revision = Revision::kRfc7530,
                                       .ordering = OrderingRule::kAnyOrder,
                                       .sessions = SessionKind::kNone,
                                       .duplicates = DuplicatePolicy::kReplyCache,
                                       .owner_seqids = true,
                                       .owner_space = '0',
                                       .errors = kErrorsOfRfc7530};
constexpr DialectFacts kFactsOfRfc8881{.name = "RFC 8881",
                                       .minor_version = MinorVersion(1),
                                       .revision = Revision::kRfc8881,
                                       .ordering = OrderingRule::kOpenerFirst,
                                       .sessions = SessionKind::kSlots,
                                       .duplicates = DuplicatePolicy::kSession,
                                       .owner_seqids = false,
                                       .owner_space = '1',
                                       .errors = kErrorsOfRfc8881};
constexpr DialectFacts kFactsOfRfc7862{.name = "RFC 7862",
                                       .minor_version = MinorVersion(2),
                                       .revision = Revision::kRfc7862,
                                       .ordering = OrderingRule::kOpenerFirst,
                                       .sessions = SessionKind::kSlots,
                                       .duplicates = DuplicatePolicy::kSession,
                                       .owner_seqids = false,
                                       .owner_space = '1',
                                       .errors = kErrorsOfRfc8881};
constexpr DialectFacts kFactsOfSess01{.name = "the sessions of 2004",
                                      .minor_version = MinorVersion(1),
                                      .revision = Revision::kRfc7530,
                                      .ordering = OrderingRule::kOpenerFirst,
                                      .sessions = SessionKind::kBound,
                                      .duplicates = DuplicatePolicy::kSession,
                                      .owner_seqids = false,
                                      .owner_space = 's',
                                      .errors = kErrorsOfSess01};

}  // namespace penstock::nfs::v4
