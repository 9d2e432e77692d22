// src/comm/device_group.cc — collectives between devices of one or several processes. The members
// of a process are threads: each publishes its tensors, all meet, each reads what it needs from the
// others' memory, all meet again. Meanwhile they exchange messages with other processes: a slice of
// a sum is combined by its member, from partial sums, one per subtree that a process holds.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "alpa/base/error.h"
#include "group_member.h"
#include "rendezvous.h"
#include "slices.h"
#include "src/comm/group.h"
#include "src/tensor/box_copy.h"

namespace alpa::comm {
namespace {

/// An all_reduce of at most so many bytes, times the other processes, takes one hop: each sends its
/// partial sums of all elements to all others. More go in two hops, by slices: fewer bytes move.
constexpr std::int64_t kOneHopBytes = 1 << 16;

class DeviceGroup final : public Group {
 public:
  explicit DeviceGroup(const GroupPlaces& places)
      : places_(places),
        size_(static_cast<int>(places.ranks.size())),
        among_(size_),
        meeting_(count_of(places, places.rank)) {
    std::map<int, std::vector<int>> by_rank;
    for (int m = 0; m < size_; ++m) {
      std::vector<int>& members = by_rank[places.ranks[m]];
      among_[m] = static_cast<int>(members.size());
      members.push_back(m);
      most_members_ = std::max(most_members_, std::ssize(members));
    }
    for (auto& [rank, members] : by_rank) {
      std::vector<std::pair<int, int>> pieces = subtrees(members, size_);
      if (rank == places.rank) {
        pieces_ = std::move(pieces);
        for (const int m : members) add_member(m, static_cast<int>(by_rank.size()) - 1);
        continue;
      }
      for (const auto& [begin, end] : pieces)
        origins_.push_back({begin, end, static_cast<int>(peers_.size())});
      remote_.insert(remote_.end(), members.begin(), members.end());
      peers_.push_back({rank, std::move(members), std::move(pieces)});
    }
    std::sort(origins_.begin(), origins_.end(),
              [](const Origin& a, const Origin& b) { return a.begin < b.begin; });
  }

  int size() const override { return size_; }

  void begin(int member, const Call& call) override {
    Member& own = of(member);
    own.shown = call;
    own.worked = false;
    own.arrival = meeting_.enter();
  }

  bool proceed(int member) override {
    Member& own = of(member);
    if (!meeting_.complete(own.arrival)) return false;
    if (own.worked) {
      if (own.failure) std::rethrow_exception(std::exchange(own.failure, nullptr));
      return true;
    }
    work_or_fail(own);
    own.worked = true;
    own.arrival = meeting_.leave();
    return proceed(member);
  }

  void wait(int member, std::optional<std::chrono::nanoseconds> limit) override {
    meeting_.wait(of(member).arrival, limit);
  }

  void reserve(int member, const Call& call) override {
    if (peers_.empty()) return;
    Member& own = of(member);
    own.shown = call;
    own.exchange.begin(/*planned=*/true);
    work(own);
    own.exchange.reserve();
  }

  std::int64_t reserved_bytes(int member) const override { return of(member).exchange.bytes(); }

  void abort() override { meeting_.abort(); }

  const Counts& counts(int member) const override { return of(member).counts; }
  void reset_counts(int member) override { of(member).counts = {}; }

 private:
  void add_member(int number, int num_peers) {
    Member& member = *members_.emplace_back(std::make_unique<Member>(number, places_.courier));
    member.parts.resize(size_);
    member.targets.resize(size_);
    member.received.resize(num_peers);
    member.incoming.resize(num_peers);
    member.landed.resize(size_);
    member.arriving.resize(size_);
    member.leaving.resize(size_);
    origins_.push_back({number, number + 1, -1});
  }

  Member& of(int member) { return *members_[among_[member]]; }
  const Member& of(int member) const { return *members_[among_[member]]; }

  /// The member's part in a call that all have entered. All leave it, even if a part fails.
  void work_or_fail(Member& own) noexcept {
    try {
      check(own);
      own.exchange.begin(/*planned=*/false);
      work(own);
      own.exchange.wait_all();
      count(own);
    } catch (...) {
      own.failure = std::current_exception();
    }
  }

  void work(Member& own) {
    const Call& call = own.shown;
    switch (call.kind) {
      case CollectiveKind::all_reduce: return reduce(own, call.combiner);
      case CollectiveKind::reduce_scatter: return reduce_shards(own, call.dims, call.combiner);
      case CollectiveKind::all_gather: return gather_shards(own, call.dims);
      case CollectiveKind::all_to_all: return exchange_boxes(own, call.dims[0], call.from_dim);
      default: bug("{} is no collective of a mesh", name_of(call.kind));
    }
  }

  void check(const Member& own) const {
    for (const auto& other : members_)
      invariant(
          other->shown.kind == own.shown.kind && other->shown.in.size() == own.shown.in.size() &&
              other->shown.out.size() == own.shown.in.size(),
          "collectives do not match: member {} calls {} of {} tensors while another calls {} of {}",
          own.number, name_of(own.shown.kind), own.shown.in.size(), name_of(other->shown.kind),
          other->shown.in.size());
  }

  void count(Member& own) const {
    const Call& call = own.shown;
    Count& count = own.counts[call.kind];
    const std::int64_t in = total_bytes(call.in), out = total_bytes(call.out);
    ++count.calls;
    count.payload_bytes += gathers(call.kind) ? out : in;
    switch (call.kind) {
      case CollectiveKind::all_reduce:
        count.moved_bytes += 2 * (size_ - 1) * slices_.bytes(call.in, own.number);
        break;
      case CollectiveKind::reduce_scatter: count.moved_bytes += (size_ - 1) * out; break;
      case CollectiveKind::all_gather: count.moved_bytes += out - in; break;
      default:
        count.moved_bytes +=
            out - Shard(call.out[0].type.shape, call.from_dim, own.number).elements() *
                      element_bytes(call.out[0]);
    }
  }

  /// Copies a box and returns its bytes.
  static void copy(const KernelTensor& from, Extents from_at, const KernelTensor& to, Extents to_at,
                   Extents extent) {
    invariant(from.type.dtype == to.type.dtype, "collective: {} into {}", to_string(from.type),
              to_string(to.type));
    BoxCopy::make(from.type.shape, from_at, to.type.shape, to_at, extent)
        .copy(from.data, to.data, size_of(to.type.dtype));
  }

  // ---- members of other processes

  /// Members of other processes whose messages are for `own` to send and receive: the threads of a
  /// process share them.
  template <class Body>
  void for_each_remote(const Member& own, Body&& body) const {
    for (std::size_t i = among_[own.number]; i < remote_.size(); i += members_.size())
      body(remote_[i]);
  }

  // Tags between two processes: by the member a partial result is for, by the member a slice or
  // shard is from, and by pairs of members.
  int tag_for(int member) const { return places_.first_tag + member; }
  int tag_from(int member) const { return places_.first_tag + size_ + member; }
  int tag_of(int from, int to) const {
    return places_.first_tag + 2 * size_ +
           static_cast<int>(among_[from] * most_members_ + among_[to]);
  }

  /// Starts to receive what the other processes have for this member: `elements(t)` of each tensor.
  template <class Elements>
  void receive_pieces(Member& own, Elements&& elements) {
    for (std::size_t p = 0; p < peers_.size(); ++p) {
      std::int64_t bytes = 0;
      for (std::size_t t = 0; t < own.shown.in.size(); ++t)
        take_pieces(bytes, own.shown.in[t].type.dtype, peers_[p].pieces, elements(t));
      own.received[p] = own.exchange.take(bytes);
      own.incoming[p] =
          own.exchange.receive(peers_[p].rank, tag_for(own.number), own.received[p], bytes);
    }
  }

  void wait_for_pieces(Member& own) {
    for (std::size_t p = 0; p < peers_.size(); ++p) own.exchange.wait(own.incoming[p]);
  }

  /// Operands of a combination of `count` elements: `of_member(m)` of this process's members, and
  /// what has been received of the others, whose place moves on. Returns their number.
  template <class OfMember>
  std::span<const Subtotal> collect(Member& own, DType dtype, std::int64_t count,
                                    OfMember&& of_member) const {
    std::size_t n = 0;
    for (const Origin& origin : origins_) {
      const std::byte* const data = origin.peer < 0 ? of_member(origin.begin)
                                                    : take_piece(own.received[origin.peer], dtype,
                                                                 origin.end - origin.begin, count);
      own.parts[n++] = {data, origin.begin, origin.end};
    }
    return {own.parts.data(), n};
  }

  /// Combines `count` elements of every piece of this process into `to`, piece by piece. Returns
  /// the end.
  template <class OfMember>
  std::byte* combine_pieces(Member& own, DType dtype, Combiner combiner, std::int64_t count,
                            std::byte* to, OfMember&& of_member) const {
    for (const auto& [begin, end] : pieces_) {
      for (int m = begin; m < end; ++m) own.parts[m - begin] = {of_member(m), m, m + 1};
      own.targets[0] = take_piece(to, dtype, end - begin, count);
      combine(dtype, combiner, {own.parts.data(), static_cast<std::size_t>(end - begin)},
              {own.targets.data(), 1}, count, /*partial=*/end - begin > 1);
    }
    return to;
  }

  /// A member's operand, which must be of this type.
  const std::byte* operand(int member, std::size_t tensor, const TensorType& type) const {
    const Call& shown = of(member).shown;
    invariant(shown.in[tensor].type == type, "{}: {} of member {} with {}", name_of(shown.kind),
              to_string(shown.in[tensor].type), member, to_string(type));
    return shown.in[tensor].data;
  }

  // ---- all_reduce: a slice per member of all tensors laid end to end

  /// Null while a call is planned: tensors have no memory then.
  static std::byte* address(const Member& own, Tensors tensors, const Range& range) {
    const KernelTensor& tensor = tensors[range.tensor];
    return own.exchange.planned() ? nullptr : tensor.data + range.begin * element_bytes(tensor);
  }

  void reduce(Member& own, Combiner combiner) {
    if (peers_.empty() || total_bytes(own.shown.in) * std::ssize(peers_) > kOneHopBytes)
      reduce_slices(own, combiner);
    else if (among_[own.number] == 0)
      reduce_whole(own, combiner);
  }

  /// Reduces in one hop: the first member of each process works for all its members.
  void reduce_whole(Member& own, Combiner combiner) {
    receive_slice_pieces(own, whole_, 0);
    const std::int64_t bytes = whole_.pieces_bytes(own.shown.in, 0, pieces_);
    std::byte* const data = own.exchange.take(bytes);
    if (!own.exchange.planned()) combine_slice_pieces(own, whole_, 0, combiner, data);
    for (const Peer& peer : peers_)
      own.exchange.send(peer.rank, tag_for(peer.members.front()), data, bytes);
    wait_for_pieces(own);
    if (!own.exchange.planned()) combine_slice(own, whole_, 0, combiner);
  }

  void reduce_slices(Member& own, Combiner combiner) {
    receive_slice_pieces(own, slices_, own.number);
    for_each_remote(own, [&](int remote) { send_slice_pieces(own, remote, combiner); });
    wait_for_pieces(own);
    if (!own.exchange.planned()) combine_slice(own, slices_, own.number, combiner);
    if (!peers_.empty()) share_slices(own);
  }

  void receive_slice_pieces(Member& own, const Slices& slices, int slice) {
    receive_pieces(own, [&](std::size_t t) { return slices.elements(own.shown.in, slice, t); });
  }

  /// Sends this process's part of member `remote`'s slice: packed partial results, or, if this
  /// process has one member and the slice is one range of it, that range from where it is.
  void send_slice_pieces(Member& own, int remote, Combiner combiner) {
    const Tensors in = own.shown.in;
    const std::int64_t bytes = slices_.pieces_bytes(in, remote, pieces_);
    const std::optional<Range> range =
        members_.size() == 1 ? slices_.only_range(in, remote) : std::nullopt;
    std::byte* const data = range ? address(own, in, *range) : own.exchange.take(bytes);
    if (!range && !own.exchange.planned())
      combine_slice_pieces(own, slices_, remote, combiner, data);
    own.leaving[remote] = own.exchange.send(places_.ranks[remote], tag_for(remote), data, bytes);
  }

  void combine_slice_pieces(Member& own, const Slices& slices, int slice, Combiner combiner,
                            std::byte* to) {
    const Tensors in = own.shown.in;
    slices.for_each_range(in, slice, [&](const Range& range) {
      const TensorType& type = in[range.tensor].type;
      to = combine_pieces(own, type.dtype, combiner, range.elements(), to, [&](int m) {
        return operand(m, range.tensor, type) + range.begin * element_bytes(in[range.tensor]);
      });
    });
  }

  /// A slice, combined from all members and written to those of this process.
  void combine_slice(Member& own, const Slices& slices, int slice, Combiner combiner) {
    const Tensors in = own.shown.in;
    slices.for_each_range(in, slice, [&](const Range& range) {
      const TensorType& type = in[range.tensor].type;
      const std::int64_t begin = range.begin * element_bytes(in[range.tensor]);
      const auto parts = collect(own, type.dtype, range.elements(),
                                 [&](int m) { return operand(m, range.tensor, type) + begin; });
      for (std::size_t m = 0; m < members_.size(); ++m) {
        const KernelTensor& out = members_[m]->shown.out[range.tensor];
        invariant(out.type == type, "all_reduce: {} of member {} into {}", to_string(type),
                  own.number, to_string(out.type));
        own.targets[m] = out.data + begin;
      }
      combine(type.dtype, combiner, parts, {own.targets.data(), members_.size()}, range.elements());
    });
  }

  /// Sends this member's finished slice to the other processes, and receives theirs.
  void share_slices(Member& own) {
    Exchange& exchange = own.exchange;
    const Tensors out = own.shown.out;
    const int self = own.number;
    const std::int64_t bytes = slices_.bytes(out, self);
    const std::optional<Range> range = slices_.only_range(out, self);
    std::byte* const data = range ? address(own, out, *range) : exchange.take(bytes);
    if (!range && !exchange.planned()) slices_.copy(out, self, data, /*pack=*/true);
    for (const Peer& peer : peers_) exchange.send(peer.rank, tag_from(self), data, bytes);
    for_each_remote(own, [&](int remote) {
      const std::int64_t size = slices_.bytes(out, remote);
      const std::optional<Range> place = slices_.only_range(out, remote);
      own.landed[remote] = place ? address(own, out, *place) : exchange.take(size);
      exchange.wait(own.leaving[remote]);  // may be from the same place
      own.arriving[remote] =
          exchange.receive(places_.ranks[remote], tag_from(remote), own.landed[remote], size);
    });
    for_each_remote(own, [&](int remote) {
      exchange.wait(own.arriving[remote]);
      const bool in_place = slices_.only_range(out, remote).has_value();
      for (const auto& member : members_)
        if (!exchange.planned() && !(in_place && member->number == self))
          slices_.copy(member->shown.out, remote, own.landed[remote], /*pack=*/false);
    });
  }

  // ---- reduce_scatter: a shard per member of every tensor

  void reduce_shards(Member& own, std::span<const ShardedDim> dims, Combiner combiner) {
    const Tensors in = own.shown.in;
    receive_pieces(own, [&](std::size_t t) {
      return Shard(in[t].type.shape, dims[t], own.number).elements();
    });
    for_each_remote(own, [&](int remote) { send_shard_pieces(own, remote, dims, combiner); });
    wait_for_pieces(own);
    for (std::size_t t = 0; t < in.size() && !own.exchange.planned(); ++t)
      combine_shard(own, t, dims[t], combiner);
  }

  void send_shard_pieces(Member& own, int remote, std::span<const ShardedDim> dims,
                         Combiner combiner) {
    const Tensors in = own.shown.in;
    std::int64_t bytes = 0;
    for (std::size_t t = 0; t < in.size(); ++t)
      take_pieces(bytes, in[t].type.dtype, pieces_,
                  Shard(in[t].type.shape, dims[t], remote).elements());
    std::byte* data = nullptr;
    if (members_.size() == 1 && in.size() == 1) {
      const BoxCopy box = Shard(in[0].type.shape, dims[0], remote).to_packed();
      if (box.loops == 0 && bytes > 0)
        data = address(own, in, {0, box.source_begin, box.source_begin + box.run});
      else
        data = own.exchange.take(bytes);
      if (box.loops > 0 && !own.exchange.planned())
        box.copy(in[0].data, data, size_of(in[0].type.dtype));
    } else {
      data = own.exchange.take(bytes);
      if (!own.exchange.planned()) combine_shard_pieces(own, remote, dims, combiner, data);
    }
    own.exchange.send(places_.ranks[remote], tag_for(remote), data, bytes);
  }

  /// Writes to `to`, tensor by tensor, this process's pieces of member `remote`'s shards, packed.
  void combine_shard_pieces(Member& own, int remote, std::span<const ShardedDim> dims,
                            Combiner combiner, std::byte* to) {
    const Tensors in = own.shown.in;
    for (std::size_t t = 0; t < in.size(); ++t) {
      const TensorType& type = in[t].type;
      const Shard shard(type.shape, dims[t], remote);
      const BoxCopy box = shard.to_packed();
      for (const auto& [begin, end] : pieces_) {
        const std::int64_t size = piece_element_bytes(type.dtype, end - begin);
        std::byte* const piece = take_piece(to, type.dtype, end - begin, shard.elements());
        box.for_each_run(0, box.runs(), [&](std::int64_t read, std::int64_t written) {
          for (int m = begin; m < end; ++m)
            own.parts[m - begin] = {operand(m, t, type) + read * element_bytes(in[t]), m, m + 1};
          own.targets[0] = piece + written * size;
          combine(type.dtype, combiner, {own.parts.data(), static_cast<std::size_t>(end - begin)},
                  {own.targets.data(), 1}, box.run, /*partial=*/end - begin > 1);
        });
      }
    }
  }

  /// This member's shard of tensor `t`, combined.
  void combine_shard(Member& own, std::size_t t, ShardedDim sharded, Combiner combiner) {
    const KernelTensor& out = own.shown.out[t];
    const TensorType& type = own.shown.in[t].type;
    invariant(out.type.dtype == type.dtype, "reduce_scatter: {} of member {} into {}",
              to_string(type), own.number, to_string(out.type));
    const Shard shard(type.shape, sharded, own.number);
    const BoxCopy box = shard.to_packed();
    const std::int64_t size = element_bytes(out);
    box.for_each_run(0, box.runs(), [&](std::int64_t read, std::int64_t written) {
      std::size_t n = 0;
      for (const Origin& origin : origins_)
        own.parts[n++] = {origin.peer < 0 ? operand(origin.begin, t, type) + read * size
                                          : shard_piece(own, origin, t, written, shard.elements()),
                          origin.begin, origin.end};
      own.targets[0] = out.data + written * size;
      combine(type.dtype, combiner, {own.parts.data(), n}, {own.targets.data(), 1}, box.run);
    });
    for (std::size_t p = 0; p < peers_.size(); ++p)
      take_pieces(own.received[p], type.dtype, peers_[p].pieces, shard.elements());
  }

  /// Element `at` of a received piece of tensor `t`, of `elements` elements.
  const std::byte* shard_piece(const Member& own, const Origin& origin, std::size_t t,
                               std::int64_t at, std::int64_t elements) const {
    const DType dtype = own.shown.in[t].type.dtype;
    const std::byte* data = own.received[origin.peer];
    for (const auto& [begin, end] : peers_[origin.peer].pieces) {
      const std::byte* const piece = take_piece(data, dtype, end - begin, elements);
      if (begin == origin.begin) return piece + at * piece_element_bytes(dtype, end - begin);
    }
    bug("reduce_scatter: no piece begins with member {}", origin.begin);
  }

  // ---- all_gather

  void gather_shards(Member& own, std::span<const ShardedDim> dims) {
    Exchange& exchange = own.exchange;
    const Tensors in = own.shown.in, out = own.shown.out;
    if (!peers_.empty()) send_shards(own);
    for_each_remote(own, [&](int remote) {
      std::int64_t bytes = 0;
      for (std::size_t t = 0; t < out.size(); ++t)
        bytes += Shard(out[t].type.shape, dims[t], remote).elements() * element_bytes(out[t]);
      own.landed[remote] = in_place(out, dims, remote)
                               ? address(own, out, {0, place_of(out, dims, remote), 0})
                               : exchange.take(bytes);
      own.arriving[remote] =
          exchange.receive(places_.ranks[remote], tag_from(remote), own.landed[remote], bytes);
    });
    for (std::size_t t = 0; t < in.size() && !exchange.planned(); ++t) gather(t, out[t], dims[t]);
    for_each_remote(own, [&](int remote) {
      exchange.wait(own.arriving[remote]);
      if (!exchange.planned()) place_shard(own, remote, dims);
    });
  }

  /// Sends this member's shards to the other processes, in one message.
  void send_shards(Member& own) {
    const Tensors in = own.shown.in;
    const std::int64_t bytes = total_bytes(in);
    std::byte* data = in.size() == 1 ? in[0].data : own.exchange.take(bytes);
    std::byte* to = data;
    for (std::size_t t = 0; t < in.size() && in.size() > 1 && !own.exchange.planned(); ++t) {
      to = std::copy_n(in[t].data, bytes_of(in[t]), to);
    }
    for (const Peer& peer : peers_) own.exchange.send(peer.rank, tag_from(own.number), data, bytes);
  }

  /// True if the call has one tensor and the member's shard is contiguous in it: the shard is then
  /// received in place.
  static bool in_place(Tensors out, std::span<const ShardedDim> dims, int member) {
    return out.size() == 1 && Shard(out[0].type.shape, dims[0], member).from_packed().loops == 0;
  }
  static std::int64_t place_of(Tensors out, std::span<const ShardedDim> dims, int member) {
    return Shard(out[0].type.shape, dims[0], member).from_packed().target_begin;
  }

  /// Copies every shard of tensor `t` that a member of this process has into `out`.
  void gather(std::size_t t, const KernelTensor& out, ShardedDim sharded) const {
    for (const auto& other : members_) {
      const KernelTensor& shard = other->shown.in[t];
      At from, to;
      copy(shard, origin(from, shard.type.rank(), sharded.dim, 0), out,
           origin(to, out.type.rank(), sharded.dim, other->number * sharded.chunk),
           shard.type.shape);
    }
  }

  /// Copies what a member of another process sent into the results of all members of this one.
  void place_shard(Member& own, int remote, std::span<const ShardedDim> dims) {
    const bool there = in_place(own.shown.out, dims, remote);
    for (const auto& member : members_) {
      if (there && member.get() == &own) continue;
      const std::byte* from = own.landed[remote];
      for (std::size_t t = 0; t < dims.size(); ++t) {
        const KernelTensor& out = member->shown.out[t];
        const Shard shard(out.type.shape, dims[t], remote);
        if (shard.elements() == 0) continue;
        shard.from_packed().copy(from, out.data, size_of(out.type.dtype));
        from += shard.elements() * element_bytes(out);
      }
    }
  }

  // ---- all_to_all

  void exchange_boxes(Member& own, ShardedDim split, ShardedDim gathered) {
    Exchange& exchange = own.exchange;
    const KernelTensor &in = own.shown.in[0], &out = own.shown.out[0];
    const std::size_t size = size_of(in.type.dtype);
    const int self = own.number;
    for (const int remote : remote_) {
      const std::int64_t bytes =
          Shard(out.type.shape, gathered, remote).elements() * element_bytes(out);
      own.landed[remote] = exchange.take(bytes);
      own.arriving[remote] =
          exchange.receive(places_.ranks[remote], tag_of(remote, self), own.landed[remote], bytes);
    }
    for (const int remote : remote_) {
      const Shard box(in.type.shape, split, remote);
      const std::int64_t bytes = box.elements() * element_bytes(in);
      std::byte* const packed = exchange.take(bytes);
      if (!exchange.planned() && bytes > 0) box.to_packed().copy(in.data, packed, size);
      exchange.send(places_.ranks[remote], tag_of(self, remote), packed, bytes);
    }
    if (exchange.planned()) return;
    for (const auto& other : members_)
      copy_box(self, other->number, other->shown.in[0], out, split, gathered);
    for (const int remote : remote_) {
      exchange.wait(own.arriving[remote]);
      const Shard box(out.type.shape, gathered, remote);
      if (box.elements() > 0) box.from_packed().copy(own.landed[remote], out.data, size);
    }
  }

  /// `other`'s part for `member`.
  static void copy_box(int member, int other, const KernelTensor& shard, const KernelTensor& out,
                       ShardedDim split, ShardedDim gathered) {
    At from, to, box;
    const int rank = out.type.rank();
    std::copy(out.type.shape.begin(), out.type.shape.end(), box.begin());
    box[gathered.dim] = shard.type.shape[gathered.dim];
    const Extents extent{box.data(), static_cast<std::size_t>(rank)};
    copy(shard, origin(from, rank, split.dim, member * split.chunk), out,
         origin(to, rank, gathered.dim, other * gathered.chunk), extent);
  }

  static int count_of(const GroupPlaces& places, int rank) {
    return static_cast<int>(std::count(places.ranks.begin(), places.ranks.end(), rank));
  }

  const GroupPlaces places_;
  const int size_;
  const Slices slices_{size_}, whole_{1};
  std::vector<int> among_;           ///< per member: its position in its process
  std::ptrdiff_t most_members_ = 0;  ///< of a process
  std::vector<int> remote_;          ///< members of other processes
  std::vector<Peer> peers_;
  std::vector<std::pair<int, int>> pieces_;       ///< `subtrees` of this process's members
  std::vector<Origin> origins_;                   ///< by first member
  std::vector<std::unique_ptr<Member>> members_;  ///< of this process
  Rendezvous meeting_;
};

}  // namespace

std::unique_ptr<Group> make_thread_group(int size) {
  require(size >= 1, "thread group of {} members; give at least 1", size);
  return std::make_unique<DeviceGroup>(GroupPlaces{.ranks = std::vector<int>(size, 0)});
}

std::unique_ptr<Group> make_group(const GroupPlaces& places) {
  return std::make_unique<DeviceGroup>(places);
}

int tags_of_group(const std::vector<int>& ranks) {
  std::map<int, int> members;
  int most = 0;
  for (const int rank : ranks) most = std::max(most, ++members[rank]);
  return 2 * static_cast<int>(ranks.size()) + most * most;
}

}  // namespace alpa::comm
