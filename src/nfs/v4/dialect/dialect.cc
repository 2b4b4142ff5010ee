#include "nfs/v4/dialect/dialect.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// RFC 7530 §13
constexpr ErrorWords kErrorsOfRfc7530{.reply_too_big = NFS4ERR_RESOURCE,
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

}  // namespace

constexpr DialectFacts kFactsOfRfc7530{.name = "RFC 7530",
                                       .minor_version = MinorVersion(0),
                                       .revision = Revision::kRfc7530,
                                       .ordering = OrderingRule::kAnyOrder,
                                       .duplicates = DuplicatePolicy::kReplyCache,
                                       .owner_seqids = true,
                                       .errors = kErrorsOfRfc7530};
constexpr DialectFacts kFactsOfRfc8881{.name = "RFC 8881",
                                       .minor_version = MinorVersion(1),
                                       .revision = Revision::kRfc8881,
                                       .ordering = OrderingRule::kOpenerFirst,
                                       .duplicates = DuplicatePolicy::kSession,
                                       .owner_seqids = false,
                                       .errors = kErrorsOfRfc8881};
constexpr DialectFacts kFactsOfRfc7862{.name = "RFC 7862",
                                       .minor_version = MinorVersion(2),
                                       .revision = Revision::kRfc7862,
                                       .ordering = OrderingRule::kOpenerFirst,
                                       .duplicates = DuplicatePolicy::kSession,
                                       .owner_seqids = false,
                                       .errors = kErrorsOfRfc8881};

}  // namespace penstock::nfs::v4
