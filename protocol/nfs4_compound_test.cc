// Tests COMPOUND and CB_COMPOUND: their encoding, and the argument and result types of each operation.
#include "protocol/nfs4_compound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "encoding_test.h"
#include "protocol/nfs4.h"
#include "xdr/testing.h"
#include "xdr/xdr.h"

namespace penstock::nfs4 {
namespace {

using ::testing::ElementsAre;
using xdr::testing::Encoded;
using xdr::testing::Octets;

// Greater than the number of each operation except ILLEGAL.
constexpr int kNumbers = 100;

// The type of the arm that a union over operations has for operation `kNumber`.
template <class Union, int kNumber>
using ArmType = Union::Variant::template Arm<Union::ArmOf(static_cast<typename Union::Discriminant>(kNumber))>;

// Returns true if both unions have an arm for a defined operation, and neither has one for an undefined number.
template <class Arguments, class Results>
consteval bool HaveTheSame(int number) {
  const auto operation = static_cast<typename Arguments::Discriminant>(number);
  const bool exists = !XdrName(operation).empty();
  return (Arguments::ArmOf(operation) != xdr::kNoArm) == exists && (Results::ArmOf(operation) != xdr::kNoArm) == exists;
}
template <class Arguments, class Results>
consteval bool HaveTheSameOperations() {
  for (int number = 0; number < kNumbers; ++number) {
    if (!HaveTheSame<Arguments, Results>(number)) return false;
  }
  return HaveTheSame<Arguments, Results>(static_cast<int>(OP_ILLEGAL));
}
static_assert(HaveTheSameOperations<nfs_argop4, nfs_resop4>());
static_assert(HaveTheSameOperations<nfs_cb_argop4, nfs_cb_resop4>());

template <class T>
std::string_view TypeName() {
  if constexpr (requires { T::kXdrName; }) return T::kXdrName;
  return {};
}

// Facts about the types of one operation. A table of rows keeps the tests from being instantiated for each operation.
template <class Operation>
struct Row {
  Operation operation;
  std::string_view arguments;  // the names of structs and unions; empty for other types
  std::string_view results;
  bool arguments_void;
  uint64_t argument_payloads;
  uint64_t result_payloads;
};

template <class Arguments, class Results, int kNumber>
void AppendRow(std::vector<Row<typename Arguments::Discriminant>>& table) {
  constexpr auto kOperation = static_cast<typename Arguments::Discriminant>(kNumber);
  if constexpr (Arguments::ArmOf(kOperation) != xdr::kNoArm) {
    using A = ArmType<Arguments, kNumber>;
    using R = ArmType<Results, kNumber>;
    table.push_back({kOperation, TypeName<A>(), TypeName<R>(), std::same_as<A, xdr::Void>, xdr::kExtent<A>.payloads,
                     xdr::kExtent<R>.payloads});
  }
}

// Returns a row for each operation of the two unions.
template <class Arguments, class Results>
auto Table() {
  std::vector<Row<typename Arguments::Discriminant>> table;
  [&]<int... kIndices>(std::integer_sequence<int, kIndices...>) {
    (AppendRow<Arguments, Results, kIndices>(table), ...);
  }(std::make_integer_sequence<int, kNumbers>());
  AppendRow<Arguments, Results, static_cast<int>(OP_ILLEGAL)>(table);
  return table;
}

std::string LowerCase(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

class Nfs4Compound : public EncodingTest {
 protected:
  template <class T>
  void ExpectRoundTrip(const T& value) {
    const xdr::Message message = Encoded(pool_, value);
    EXPECT_EQ(message.flat_size(), xdr::EncodedSize(value));
    EXPECT_EQ(xdr::DecodeWhole<T>(message), value);
    EXPECT_FALSE(xdr::Print(value).empty());
  }
};

// A client sends this to revalidate a cached file: RFC 8881 §16.2.1, §18.46, §18.19, §18.7.
constexpr std::string_view kSequencePutfhGetattr =
    "00000002 67610000 00000001 00000003 "  // tag "ga", minor version 1, 3 operations
    "00000035 01010101 01010101 01010101 01010101 00000007 00000002 00000003 00000001 "  // SEQUENCE (53)
    "00000016 00000005 66683132 33000000 "                                               // PUTFH (22)
    "00000009 00000002 0010011a 0000003a";                                               // GETATTR (9)

COMPOUND4args SequencePutfhGetattr() {
  SEQUENCE4args sequence{.sa_sequenceid = 7, .sa_slotid = 2, .sa_highest_slotid = 3, .sa_cachethis = true};
  sequence.sa_sessionid.fill(std::byte{1});
  COMPOUND4args args{.tag = "ga", .minorversion = 1};
  args.argarray.emplace_back(OP_SEQUENCE, sequence);
  args.argarray.emplace_back(OP_PUTFH, PUTFH4args{.object = nfs_fh4(AsBytes("fh123"))});
  args.argarray.emplace_back(OP_GETATTR, GETATTR4args{.attr_request = {0x0010011a, 0x0000003a}});
  return args;
}

TEST_F(Nfs4Compound, EncodesSequencePutfhGetattr) {
  ExpectEncoding(SequencePutfhGetattr(), std::string(kSequencePutfhGetattr));
}

TEST_F(Nfs4Compound, DecodesOneOperationAfterTheOther) {
  const xdr::Message message = xdr::Message::Whole(Octets(pool_, kSequencePutfhGetattr));
  xdr::Decoder decoder(message);
  const COMPOUND4args whole = SequencePutfhGetattr();

  COMPOUND4args_head head;
  ASSERT_TRUE(xdr::Decode(decoder, head));
  EXPECT_EQ(head, (COMPOUND4args_head{.tag = "ga", .minorversion = 1, .count = 3}));
  const auto expect_next = [&]<class T>(nfs_opnum4 operation, const T& expected) {
    nfs_opnum4 number{};
    T arguments;
    ASSERT_TRUE(xdr::Decode(decoder, number) && xdr::Decode(decoder, arguments));
    EXPECT_EQ(number, operation);
    EXPECT_EQ(arguments, expected);
  };
  expect_next(OP_SEQUENCE, whole.argarray[0].opsequence());
  expect_next(OP_PUTFH, whole.argarray[1].opputfh());
  expect_next(OP_GETATTR, whole.argarray[2].opgetattr());
  EXPECT_TRUE(decoder.Finish());
}

TEST_F(Nfs4Compound, EncodesAReplyThatEndsAtItsFirstError) {
  COMPOUND4res res{.status = NFS4ERR_STALE, .tag = "ga"};
  SEQUENCE4resok sequence{.sr_sequenceid = 7, .sr_slotid = 2, .sr_highest_slotid = 3, .sr_target_highest_slotid = 4};
  sequence.sr_sessionid.fill(std::byte{1});
  sequence.sr_status_flags = SEQ4_STATUS_LEASE_MOVED;
  res.resarray.emplace_back(OP_SEQUENCE, SEQUENCE4res(NFS4_OK, sequence));
  res.resarray.emplace_back(OP_PUTFH, PUTFH4res{.status = NFS4ERR_STALE});
  ExpectEncoding(res,
                 "00000046 00000002 67610000 00000002 "
                 "00000035 00000000 01010101 01010101 01010101 01010101 00000007 00000002 00000003 00000004 00000080 "
                 "00000016 00000046");
}

TEST_F(Nfs4Compound, EncodesACallback) {
  CB_COMPOUND4args args{.tag = "", .minorversion = 0, .callback_ident = 9};
  args.argarray.emplace_back(OP_CB_RECALL,
                             CB_RECALL4args{.stateid = {.seqid = 1}, .truncate = true, .fh = nfs_fh4(AsBytes("fh12"))});
  ExpectEncoding(args,
                 "00000000 00000000 00000009 00000001 "
                 "00000004 00000001 00000000 00000000 00000000 00000001 00000004 66683132");
}

// RFC 8881 §16.2.3: the server answers with OP_ILLEGAL. It cannot read the arguments, nor a later operation.
TEST_F(Nfs4Compound, RejectsAnUndefinedOperation) {
  const xdr::Message message = xdr::Message::Whole(Octets(pool_, "00000000 00000002 00000001 0000004c"));
  const auto args = xdr::DecodeWhole<COMPOUND4args>(message);
  ASSERT_FALSE(args);
  EXPECT_EQ(args.error(), xdr::Error::kBadUnion);
}

// RFC 7863 defines 3 to 71, RFC 8276 §8.6 defines 72 to 75.
TEST_F(Nfs4Compound, OperationNumbersHaveNoGaps) {
  for (int number = 0; number < kNumbers; ++number) {
    EXPECT_EQ(!XdrName(static_cast<nfs_opnum4>(number)).empty(), number >= 3 && number <= 75) << number;
    EXPECT_EQ(!XdrName(static_cast<nfs_cb_opnum4>(number)).empty(), number >= 3 && number <= 15) << number;
  }
}

TEST_F(Nfs4Compound, TypesOfEachOperationHaveItsName) {
  std::vector<std::string> without_arguments;
  for (const auto& row : Table<nfs_argop4, nfs_resop4>()) {
    const std::string name(XdrName(row.operation).substr(3));
    const std::string arm = row.arguments_void ? "void" : "op" + LowerCase(name);
    EXPECT_EQ(nfs_argop4::kArmNames[nfs_argop4::ArmOf(row.operation)], arm);
    EXPECT_EQ(nfs_resop4::kArmNames[nfs_resop4::ArmOf(row.operation)], "op" + LowerCase(name));
    if (row.operation == OP_SECINFO_NO_NAME) continue;  // its arguments are an enum, its results are those of SECINFO
    EXPECT_EQ(row.arguments, row.arguments_void ? "" : name + "4args");
    EXPECT_EQ(row.results, name + "4res");
    if (row.arguments_void) without_arguments.push_back(name);
  }
  EXPECT_THAT(without_arguments,
              ElementsAre("GETFH", "LOOKUPP", "PUTPUBFH", "PUTROOTFH", "READLINK", "RESTOREFH", "SAVEFH", "ILLEGAL"));
}

TEST_F(Nfs4Compound, TypesOfEachCallbackHaveItsName) {
  for (const auto& row : Table<nfs_cb_argop4, nfs_cb_resop4>()) {
    const std::string name(XdrName(row.operation).substr(3));
    EXPECT_EQ(row.results, name + "4res");
    EXPECT_EQ(row.arguments_void, row.operation == OP_CB_ILLEGAL);
    if (row.arguments_void) continue;
    // RFC 8881 §20.7.1: its arguments are a typedef of those of CB_RECALL_ANY.
    const bool is_recall_any = row.operation == OP_CB_RECALLABLE_OBJ_AVAIL;
    EXPECT_EQ(row.arguments, is_recall_any ? "CB_RECALL_ANY4args" : name + "4args");
  }
}

// RFC 8267 §6.1. Callbacks have no DDP-eligible items.
TEST_F(Nfs4Compound, DdpEligibleOperationsAreThoseOfRfc8267) {
  std::vector<std::string_view> arguments;
  std::vector<std::string_view> results;
  for (const auto& row : Table<nfs_argop4, nfs_resop4>()) {
    if (row.argument_payloads) arguments.push_back(XdrName(row.operation));
    if (row.result_payloads) results.push_back(XdrName(row.operation));
  }
  EXPECT_THAT(arguments, ElementsAre("OP_CREATE", "OP_WRITE"));
  EXPECT_THAT(results, ElementsAre("OP_READ", "OP_READLINK"));
  for (const auto& row : Table<nfs_cb_argop4, nfs_cb_resop4>()) {
    EXPECT_EQ(row.argument_payloads + row.result_payloads, 0u) << XdrName(row.operation);
  }
}

TEST_F(Nfs4Compound, RoundTripsTheDefaultOfEachOperation) {
  COMPOUND4args args;
  COMPOUND4res res;
  for (const auto& row : Table<nfs_argop4, nfs_resop4>()) {
    args.argarray.emplace_back(row.operation);
    res.resarray.emplace_back(row.operation);
  }
  EXPECT_EQ(args.argarray.size(), 74u);
  ExpectRoundTrip(args);
  ExpectRoundTrip(res);

  CB_COMPOUND4args cb_args;
  CB_COMPOUND4res cb_res;
  for (const auto& row : Table<nfs_cb_argop4, nfs_cb_resop4>()) {
    cb_args.argarray.emplace_back(row.operation);
    cb_res.resarray.emplace_back(row.operation);
  }
  EXPECT_EQ(cb_args.argarray.size(), 14u);
  ExpectRoundTrip(cb_args);
  ExpectRoundTrip(cb_res);
}

}  // namespace
}  // namespace penstock::nfs4
