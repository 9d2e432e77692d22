// src/ir/layer_names.cc — names layers by the scopes around them
#include "src/ir/layer_names.h"

#include <algorithm>
#include <limits>

#include "alpa/base/error.h"
#include "alpa/base/text.h"

namespace alpa {
namespace {

/// Kind of a Sequential, which adds no name; see LayerIdentity::kind.
constexpr std::string_view kUnseenKind = "sequential";

void check_path(std::string_view path) {
  constexpr std::string_view kMarks = "_-";
  bool part = false;
  for (char c : path) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || kMarks.find(c) != kMarks.npos;
    require(letter || (c == '.' && part),
            "\"{}\" can't name a layer; give letters, digits, '_' and '-', in parts joined by '.'",
            excerpt(path));
    part = letter;
  }
  require(part, "\"{}\" can't name a layer; its last part is empty", excerpt(path));
}

}  // namespace

const std::string& LayerNames::path(int scope) const {
  static const std::string model;
  return scope < 0 ? model : scopes_.at(scope).path;
}

const std::string& LayerNames::prefix() const {
  static const std::string none;
  return open_.empty() ? none : open_.back().prefix;
}

std::string LayerNames::local(const Scope& scope) const {
  if (!scope.name.empty()) return scope.name;
  if (scope.kind == kUnseenKind && scope.number == 0) return {};
  return scope.kind + std::to_string(scope.number);
}

std::string LayerNames::below(int parent, const std::string& local) const {
  const std::string& above = path(parent);
  return above.empty() || local.empty() ? above + local : above + "." + local;
}

std::string_view LayerNames::name_of(const LayerIdentity& layer) const {
  if (!layer.name.empty()) return layer.name;
  return suggested_ == layer.number ? std::string_view(suggestion_) : std::string_view();
}

std::string LayerNames::path_of(const LayerIdentity& layer) const {
  const int parent = innermost();
  if (const std::string_view name = name_of(layer); !name.empty())
    return below(parent, std::string(name));
  const std::string kind(layer.kind);
  const auto count = counts_.find({parent, kind});
  Scope next{.kind = kind};
  next.number = count == counts_.end() ? 0 : count->second;
  return below(parent, local(next));
}

int LayerNames::rival(const LayerIdentity& layer) const {
  if (of_layer_.count(layer.number)) return -1;
  const std::string own = path_of(layer);
  if (own == path(innermost())) return -1;  // adds no name
  const auto found = by_path_.find(own);
  return found == by_path_.end() || scopes_[found->second].layer == 0 ? -1 : found->second;
}

int LayerNames::add(Scope scope) {
  const std::string own = local(scope);
  scope.path = below(scope.parent, own);
  const int number = static_cast<int>(scopes_.size());
  if (!own.empty()) by_path_[scope.path] = number;
  if (scope.layer != 0) of_layer_[scope.layer] = number;
  scopes_.push_back(std::move(scope));
  return number;
}

int LayerNames::child(int parent, std::string_view name) {
  const auto found = by_path_.find(below(parent, std::string(name)));
  if (found != by_path_.end()) return found->second;
  return add({.parent = parent, .name = std::string(name)});
}

int LayerNames::descendant(int parent, std::string_view path) {
  check_path(path);
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('.', start), path.size());
    parent = child(parent, path.substr(start, end - start));
    start = end + 1;
  }
  return parent;
}

void LayerNames::enter(int scope) {
  const std::string base = open_.empty() ? "" : open_.back().base;
  const std::string& own = path(scope);
  open_.push_back({.scope = scope, .base = base, .prefix = own.empty() ? base : base + own + "/"});
}

void LayerNames::open(std::string_view path) { enter(descendant(innermost(), path)); }

void LayerNames::open(const LayerIdentity& layer) {
  invariant(layer.number != 0 && !layer.kind.empty(), "a layer without number or kind");
  invariant(rival(layer) < 0, "two layers have the path \"{}\"", path_of(layer));
  if (const auto known = of_layer_.find(layer.number); known != of_layer_.end())
    return enter(known->second);
  const int parent = innermost();
  int scope = -1;
  if (const std::string_view name = name_of(layer); !name.empty()) {
    scope = descendant(parent, name);
    scopes_[scope].layer = layer.number, scopes_[scope].kind = layer.kind;
    of_layer_[layer.number] = scope;
  } else {
    const std::string kind(layer.kind);
    scope = add({.parent = parent,
                 .layer = layer.number,
                 .kind = kind,
                 .name = {},
                 .number = counts_[{parent, kind}]++});
  }
  suggested_ = 0;
  enter(scope);
}

void LayerNames::open_text(std::string_view text) {
  const std::string whole = prefix() + std::string(text) + "/";
  open_.push_back({.scope = innermost(), .text_only = true, .base = whole, .prefix = whole});
}

void LayerNames::close() {
  invariant(!open_.empty(), "a scope is closed that was not opened");
  open_.pop_back();
}

void LayerNames::suggest(std::uintptr_t number, std::string_view name) {
  suggested_ = number, suggestion_ = name;
}

std::map<std::string, std::string> LayerNames::renumber(const std::map<int, int>& uses) {
  std::vector<int> first(scopes_.size(), std::numeric_limits<int>::max());
  for (const auto& [scope, use] : uses)
    for (int s = scope; s >= 0; s = scopes_[s].parent) first[s] = std::min(first[s], use);
  std::map<std::pair<int, std::string>, std::vector<int>> siblings;
  std::vector<bool> seen;  // in their paths
  for (int s = 0; s < static_cast<int>(scopes_.size()); ++s)
    seen.push_back(!local(scopes_[s]).empty());
  for (int s = 0; s < static_cast<int>(scopes_.size()); ++s)
    if (scopes_[s].name.empty()) siblings[{scopes_[s].parent, scopes_[s].kind}].push_back(s);
  for (auto& [parent_and_kind, members] : siblings) {
    std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
      return std::pair(first[a], scopes_[a].number) < std::pair(first[b], scopes_[b].number);
    });
    for (std::size_t i = 0; i < members.size(); ++i)
      scopes_[members[i]].number = static_cast<int>(i);
  }
  std::map<std::string, std::string> renamed;
  by_path_.clear();
  for (int s = 0; s < static_cast<int>(scopes_.size()); ++s) {
    Scope& scope = scopes_[s];
    const std::string own = local(scope), before = scope.path, now = below(scope.parent, own);
    scope.path = now;
    if (before != now && seen[s]) renamed[before] = now;
    require(own.empty() || by_path_.emplace(now, s).second,
            "two layers are called \"{}\"; give one of them another name ({{.name = \"…\"}})", now);
  }
  return renamed;
}

}  // namespace alpa
