// Streams, events and captured graphs: in which order queued work runs.
//
// Nothing runs before somebody waits.  Then there are two orders, which a GPU may take as well:
// - late: the stream that is waited for runs, and others only as far as it waits for them itself.  What it
//   reads of theirs without waiting is not there yet.
// - ahead: the others run first, always as far as they wait for nothing.  What they overwrite while the
//   stream still needs it is gone.
// A missing wait shows in one of them, if what is read is not what it should be (memory.h).
//
// A stream that waits for an event of a captured stream joins the capture, as a branch.  A launch of the
// graph queues its branches in streams of their own, but for the first.
#pragma once
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace emulator {

using Work = std::function<void()>;

[[noreturn]] inline void stop(const std::string& text) {
    fprintf(stderr, "emulated device: %s\n", text.c_str());
    abort();
}

// For each branch of a capture, how many of its steps come before.
using Seen = std::vector<size_t>;

// An event as it was recorded once.
struct Mark {
    Stream* stream;
    bool over = false;
    double seconds = 0;
    size_t capture = 0;  // number of the capture in which it was recorded; 0 outside
    Seen seen = {};
};
using Event = std::shared_ptr<Mark>;

struct Step {
    Work work;
    Event awaited;
};
struct Stream {
    std::deque<Step> queue = {};
    Recorded* capture = nullptr;  // that it takes part in
    size_t branch = 0;
    bool destroyed = false;
};

// A graph.  Memory that is allocated and freed while it is captured is its own.
struct Recorded {
    size_t number;  // of the capture
    struct Captured {
        size_t branch;
        Step step;
        Event recorded;
    };
    std::vector<Captured> steps = {};
    std::vector<Stream*> branches = {};  // that are captured, or that launches use
    std::vector<Seen> seen = {};         // by each branch
    std::vector<std::shared_ptr<void>> memory = {};
    size_t allocated = 0, freed = 0;
};

class Streams {
  public:
    bool ahead = false;

    Stream* create() {
        made_.push_back(std::make_unique<Stream>());
        return made_.back().get();
    }
    // What is queued still runs, if somebody waits for it.
    void destroy(Stream* stream) {
        found(stream)->destroyed = true;
        forget_destroyed();
    }
    // Returns the stream, the default one for null.
    Stream* found(Stream* stream) {
        if (!stream || stream == &none_) return &none_;
        for (const auto& each : made_)
            if (each.get() == stream && !stream->destroyed) return stream;
        stop("a stream is used that does not exist");
    }

    void add(Stream* stream, Work work) { add(stream, Step{std::move(work), nullptr}, nullptr); }
    Event record(Stream* stream) {
        auto mark = std::make_shared<Mark>();
        mark->stream = stream;
        if (Recorded* graph = stream->capture) {
            mark->capture = graph->number;
            mark->seen = graph->seen[stream->branch];
            graph->steps.push_back({stream->branch, {}, mark});
        } else {
            stream->queue.push_back({[this, mark] { pass(*mark); }, nullptr});
        }
        return mark;
    }
    // Returns whether the stream may wait for the event.
    bool await(Stream* stream, const Event& event) {
        if (!event) return true;
        if (event->capture && !stream->capture) join(stream, *event);
        if (event->capture != (stream->capture ? stream->capture->number : 0)) return false;
        add(stream, Step{{}, event}, event.get());
        return true;
    }

    // For the host.
    void run_one(Stream* stream) {
        if (stream->capture) stop("a stream is waited for while it is captured");
        if (ahead) run_others(stream);
        if (!stream->queue.empty()) run_front(stream);
    }
    void drain(Stream* stream) {
        do run_one(stream);
        while (!stream->queue.empty());
    }
    void drain_all() {
        drain(&none_);
        for (size_t k = 0; k < made_.size(); k++)
            if (!made_[k]->capture) drain(made_[k].get());
        forget_destroyed();
    }
    void finish(const Event& event) {
        if (event && event->capture) stop("an event is waited for that was captured");
        while (event && !event->over && !event->stream->queue.empty()) run_one(event->stream);
    }

    void begin_capture(Stream* stream) { enter(stream, new Recorded{++captures_}); }
    // Returns null if not all branches come together again.
    Recorded* end_capture(Stream* stream) {
        Recorded* const graph = stream->capture;
        for (Stream* branch : graph->branches) branch->capture = nullptr;
        bool joined = true;
        for (size_t k = 1; k < graph->branches.size(); k++)
            joined &= at(graph->seen[0], k) == graph->seen[k][k];
        if (graph->allocated != graph->freed) stop("memory that a graph allocates is not freed by it");
        graph->branches.resize(1);
        if (joined) return graph;
        delete graph;
        return nullptr;
    }
    Recorded* instantiate(const Recorded& graph) {
        auto* made = new Recorded(graph);
        while (made->branches.size() < made->seen.size()) made->branches.push_back(create());
        return made;
    }
    void launch(const Recorded& graph, Stream* stream) {
        std::map<const Mark*, Event> events;
        for (const auto& [branch, step, recorded] : graph.steps) {
            Stream* const to = branch ? graph.branches[branch] : stream;
            if (recorded)
                events[recorded.get()] = record(to);
            else if (step.awaited)
                await(to, events[step.awaited.get()]);
            else
                add(to, step.work);
        }
    }
    void destroy(Recorded* graph) {
        for (size_t k = 1; k < graph->branches.size(); k++) destroy(graph->branches[k]);
        delete graph;
    }

  private:
    static size_t at(const Seen& seen, size_t branch) { return branch < seen.size() ? seen[branch] : 0; }

    void pass(Mark& mark) {
        mark.seconds = clock_ += 1e-3;
        mark.over = true;
    }
    void enter(Stream* stream, Recorded* graph) {
        stream->capture = graph;
        stream->branch = graph->branches.size();
        graph->branches.push_back(stream);
        graph->seen.push_back(Seen(stream->branch + 1));
    }
    void join(Stream* stream, const Mark& event) {
        for (const auto& each : made_)
            if (each->capture && each->capture->number == event.capture) return enter(stream, each->capture);
    }
    void add(Stream* stream, Step step, const Mark* awaited) {
        Recorded* const graph = stream->capture;
        if (!graph) return stream->queue.push_back(std::move(step));
        Seen& seen = graph->seen[stream->branch];
        if (!awaited) seen[stream->branch]++;
        for (size_t k = 0; awaited && k < awaited->seen.size(); k++) {
            if (seen.size() <= k) seen.resize(k + 1);
            seen[k] = std::max(seen[k], awaited->seen[k]);
        }
        graph->steps.push_back({stream->branch, std::move(step), nullptr});
    }

    void run_front(Stream* stream) {
        const Step step = std::move(stream->queue.front());
        stream->queue.pop_front();
        if (step.awaited)
            while (!step.awaited->over) run_front(step.awaited->stream);
        else
            step.work();
    }
    void run_others(Stream* stream) {
        const auto runs = [&](Stream* each) {
            bool any = false;
            for (; each != stream && !each->queue.empty(); any = true) {
                const Event& awaited = each->queue.front().awaited;
                if (awaited && !awaited->over) break;
                run_front(each);
            }
            return any;
        };
        for (bool any = true; any;) {
            any = runs(&none_);
            for (size_t k = 0; k < made_.size(); k++) any |= runs(made_[k].get());
        }
    }
    void forget_destroyed() {
        for (size_t k = made_.size(); k-- > 0;)
            if (made_[k]->destroyed && made_[k]->queue.empty()) made_.erase(made_.begin() + long(k));
    }

    std::vector<std::unique_ptr<Stream>> made_;
    Stream none_;
    size_t captures_ = 0;
    double clock_ = 0;
};

}  // namespace emulator
