# Tarn: memory pools for OpenCL and CUDA.
# SPDX-License-Identifier: MIT
#
# browse.py BROWSER FOLDER [PICTURES]: looks at the pages known.html, lossy.html and so on in a folder
# with Chromium: presses keys, moves the mouse, and compares numbers.  The pages show make-trace's
# traces and make-snapshot's snapshots.  Prints a line for each check: "ok" or "not ok", and what it
# checked; tarn-view.t counts the lines.  With a third argument, a folder, it puts pictures of each
# view there.

import base64
import json
import os
import select
import subprocess
import sys
import time

KIB, MIB = 1 << 10, 1 << 20
PATIENCE = 120  # seconds, on a machine that does other things


class Browser:
    """Chromium, by its protocol for debugging, on a pair of pipes."""

    def __init__(self, program, folder):
        to_child, self.output = os.pipe()
        self.input, from_child = os.pipe()

        def place_pipes():
            ends = os.dup(to_child), os.dup(from_child)  # whatever numbers they have
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.log = open(os.path.join(folder, 'browser.log'), 'wb')
        self.process = subprocess.Popen(
            [program, '--headless=new', '--remote-debugging-pipe', '--disable-gpu', '--no-first-run',
             '--disable-dev-shm-usage', '--window-size=1400,900', '--hide-scrollbars',
             '--user-data-dir=' + os.path.join(folder, 'profile')]
            + (['--no-sandbox'] if os.getuid() == 0 else []),
            preexec_fn=place_pipes, pass_fds=(3, 4), stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log)
        os.close(to_child)
        os.close(from_child)
        self.bytes, self.number, self.session, self.events = b'', 0, None, []

    def receive(self):
        while b'\0' not in self.bytes:
            if not select.select([self.input], [], [], PATIENCE)[0]:
                raise TimeoutError('the browser says nothing')
            part = os.read(self.input, 1 << 20)
            if not part:
                raise EOFError('the browser has ended')
            self.bytes += part
        message, self.bytes = self.bytes.split(b'\0', 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {'id': self.number, 'method': method, 'params': parameters}
        if self.session:
            message['sessionId'] = self.session
        data = json.dumps(message).encode() + b'\0'
        while data:
            data = data[os.write(self.output, data):]
        while True:
            answer = self.receive()
            if answer.get('id') == self.number:
                if 'error' in answer:
                    raise RuntimeError(method + ': ' + answer['error']['message'])
                return answer['result']
            self.events.append(answer)

    def open_tab(self):
        target = self.call('Target.createTarget', url='about:blank')['targetId']
        self.session = self.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        for domain in 'Page', 'Runtime', 'Network', 'Log':
            self.call(domain + '.enable')

    def ask(self, expression):
        """What an expression of JavaScript is."""
        answer = self.call('Runtime.evaluate', expression=expression, returnByValue=True,
                           awaitPromise=True)
        if 'exceptionDetails' in answer:
            raise RuntimeError(expression + ': ' + str(answer['exceptionDetails'].get('exception')))
        return answer['result'].get('value')

    def go(self, path, fragment=''):
        """Opens a page, and waits until it is ready, or says why it is not."""
        self.call('Page.navigate', url='about:blank')
        self.call('Page.navigate', url='file://' + path + '#' + fragment)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.ask('document.documentElement?.dataset.ready || document.documentElement?.dataset.error'):
                return
            time.sleep(0.05)
        raise TimeoutError(path + ' does not get ready')

    def settle(self):
        """Waits until what was asked for is drawn."""
        self.ask('new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))')

    def press(self, *keys):
        for key in keys:
            shift = 8 if key.startswith('Shift+') else 0
            key = key.replace('Shift+', '')
            text = {'text': key} if len(key) == 1 else {}
            self.call('Input.dispatchKeyEvent', type='keyDown', key=key, modifiers=shift, **text)
            self.call('Input.dispatchKeyEvent', type='keyUp', key=key, modifiers=shift)
        self.settle()

    def point(self, x, y, kind='mouseMoved', **more):
        self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, **more)
        self.settle()

    def click(self, x, y):
        self.point(x, y)
        for kind in 'mousePressed', 'mouseReleased':
            self.point(x, y, kind, button='left', clickCount=1)

    def click_on(self, selector):
        self.click(*self.ask('''(() => { const box = document.querySelector(%s).getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2]; })()''' % json.dumps(selector)))

    def close(self):
        try:
            self.session = None
            self.call('Browser.close')
            self.process.wait(10)
        except (OSError, EOFError, RuntimeError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


class Checks:
    def __init__(self, browser):
        self.browser = browser

    def that(self, what, found, expected=True):
        is_right = found == expected
        print(('ok ' if is_right else 'not ok ') + what
              + ('' if is_right else ': found %r, not %r' % (found, expected)), flush=True)

    def data(self, name):
        return self.browser.ask('document.documentElement.dataset.' + name)

    def number(self, name):
        return int(self.data(name))

    def text(self, selector):
        return self.browser.ask('document.querySelector(%s)?.textContent' % json.dumps(selector))

    def figure(self, name):
        return self.text('section:not([hidden]) [data-figure="%s"] b' % name)

    def groups(self):
        """Of the table that is shown: name -> bytes, count."""
        rows = self.browser.ask('''[...document.querySelectorAll('section:not([hidden]) [data-group]')].map(
            it => [it.dataset.group, [Number(it.dataset.bytes), Number(it.dataset.count)]])''')
        return dict((name, tuple(numbers)) for name, numbers in rows)


def place_of(browser, time_ms, mib):
    """Where a time and a number of bytes are on the lives' plot."""
    return browser.ask('''(() => {
        const box = document.getElementById('lives').getBoundingClientRect(), { plot, column } = livesView;
        const { h } = livesView.scale, at = %f * 1048576 / column.bytesPerPixel / h;
        return [box.x + plot.left + %f / 100 * plot.width, box.y + plot.top + plot.height * (1 - at)];
    })()''' % (mib, time_ms))


HOSTILE = '</script><img src=x onerror=alert(1)>'


def check_numbers(browser, checks):
    checks.that('the peak', checks.number('peak'), 80 * MIB - 7 * KIB)
    checks.that('... its time', checks.number('peakTime'), 13000000)
    checks.that('... of what was managed', checks.number('managedPeak'), 80 * MIB)
    checks.that('the cursor is at the peak', checks.number('active'), 80 * MIB - 7 * KIB)
    checks.that('nothing is lost, and the header says so',
                'none lost' in checks.text('#facts') and 'complete' in checks.text('#facts'))
    checks.that('a pool in the table of pools', '32.00 MiB' in checks.text('#objects [data-object="4"]'))
    browser.click_on('#objects [data-object="4"]')
    browser.settle()
    checks.that('one pool, by a click: its peak', checks.number('peak'), 32 * MIB - 4 * KIB)
    browser.press('o')
    checks.that('the next one by a key is the heap: what was in use of it', checks.number('peak'), 80 * MIB)
    checks.that('... and in its pieces', checks.number('managedPeak'), 96 * MIB)
    browser.press('O', 'O', 'O')
    checks.that('all pools again', checks.number('peak'), 80 * MIB - 7 * KIB)


def check_held(browser, checks):
    browser.press('1')
    for time_ms, held in (13, '0 bytes'), (40, '32.00 MiB'), (66, '16.00 MiB'), (85, '0 bytes'), (100, '16.00 MiB'):
        browser.ask('app.setTime(%d)' % (time_ms * 1000000))
        browser.settle()
        checks.that('held after %d ms' % time_ms, checks.text('[data-curve=held] b'), held)
    browser.press('p')


def check_groups(browser, checks):
    weights, activations = (48 * MIB - 3 * KIB, 3), (32 * MIB - 4 * KIB, 4)
    browser.press('4')
    checks.that('who held the peak, by tag', checks.groups(), {'weights': weights, 'activations': activations})
    browser.press('g')
    checks.that('... by caller, which is not Tarn itself, by its name in C++', checks.groups(),
                {'app::load_weights()': weights, 'forward<float>': activations})
    browser.press('g', 'g')
    checks.that('... by size', checks.groups(), {'8 MiB to 16 MiB': weights, '4 MiB to 8 MiB': activations})
    browser.press('g')
    checks.that('... by queue', checks.groups(), {'(no queue)': weights, 'queue 0xbeef': activations})
    browser.press('g')
    checks.that('... by thread', checks.groups(), {'main (1001)': weights, 'worker (1002)': activations})
    browser.press('g')
    checks.that('... by pool', checks.groups(),
                {'pool “weights & co”': weights, 'pool “scratch”': activations})
    browser.press('g', 'g')
    checks.that('the first group says where its blocks are from',
                'app::load_weights()' in checks.text('#alive ol.stack'))
    browser.click_on('[data-group=weights]')
    browser.settle()
    checks.that('... and closes by a click', browser.ask("document.querySelector('#alive ol.stack')"), None)
    browser.click_on('[data-group=activations]')
    browser.settle()
    checks.that('... another one opens', 'forward' in checks.text('#alive ol.stack'))
    browser.press('6')
    checks.that('leaks', checks.groups(), {
        'weights': (32 * MIB - 2 * KIB, 2), 'activations': (8 * MIB - KIB, 1), HOSTILE: (8 * MIB - KIB, 1)})
    checks.that('... in all', checks.figure('blocks'), '4')
    checks.that('a tag of HTML is a text', browser.ask('document.images.length'), 0)
    browser.press('5', 'p', ',')
    checks.that('at the cursor, one event before the peak', checks.groups(),
                {'weights': weights, 'activations': (24 * MIB - 3 * KIB, 3)})
    browser.press('.', 'e')
    checks.that('... and at the end', checks.figure('blocks'), '4')


def check_heap(browser, checks):
    browser.press('3', 'p')
    checks.that('pieces of the heap', checks.figure('pieces'), '2')
    checks.that('... bytes in them', checks.figure('piece-bytes'), '96.00 MiB')
    checks.that('... in use at the peak', checks.figure('used-bytes'), '80.00 MiB')
    checks.that('... one stretch is free', checks.figure('holes'), '1')
    browser.press('e')
    checks.that('... in use at the end', checks.figure('used-bytes'), '64.00 MiB')
    checks.that('... held by pools', checks.figure('held-bytes'), '16.00 MiB')
    checks.that('... free', checks.figure('free-bytes'), '32.00 MiB')
    checks.that('... in three stretches', checks.figure('holes'), '3')
    checks.that('... the largest', checks.figure('largest-hole'), '16.00 MiB')
    box = browser.ask("(() => { const b = document.getElementById('map').getBoundingClientRect(); return [b.x, b.y]; })()")
    browser.point(box[0] + 200, box[1] + 5)
    checks.that('memory that is pointed at', 'weights' in checks.text('#piece'))


def check_lives(browser, checks):
    browser.press('2', '0', 'p')
    x, y = place_of(browser, 40, 8)
    browser.point(x, y)
    tip = checks.text('#tip')
    checks.that('a block that is pointed at', '16.00 MiB weights' in tip and 'never freed' in tip)
    browser.point(*place_of(browser, 15, 75))
    checks.that('... another one', 'activations' in checks.text('#tip'))
    browser.point(*place_of(browser, 35, 60))
    checks.that('... none', browser.ask("document.getElementById('tip').hidden"))
    browser.click(x, y)
    checks.that('a click chooses it, and says where it is from', 'app::load_weights()' in checks.text('#life'))
    checks.that('... and how long it lived', '96.00 ms' in checks.text('#life'))
    browser.press('p', 'ArrowUp')
    browser.point(x, y)  # as Chromium says it by itself when the page has changed there
    checks.that('the one above it, by a key', browser.ask("document.getElementById('life').textContent.includes('5.000 ms')"))
    browser.point(x, y, 'mouseWheel', deltaX=0, deltaY=-300)
    shown = checks.number('shown')
    checks.that('the wheel zooms', 10000000 < shown < 90000000)
    browser.press('+')
    checks.that('+ zooms', checks.number('shown') < shown)
    before = browser.ask('document.getElementById("status").textContent')
    browser.press('ArrowRight')
    checks.that('→ moves', browser.ask('document.getElementById("status").textContent') != before)
    browser.press('0')
    checks.that('0 shows all', checks.number('shown'), 100000000)
    time_before = checks.number('time')
    browser.press('Shift+ArrowRight')
    checks.that('Shift → moves the cursor', checks.number('time') > time_before)
    browser.click_on('#lives-legend .keys button:nth-child(2)')
    checks.that('a group by itself', checks.number('peak'), 32 * MIB - 4 * KIB)
    browser.press('Escape')
    checks.that('Esc shows all groups', checks.number('peak'), 80 * MIB - 7 * KIB)


def check_calls(browser, checks):
    browser.press('7')
    rows = browser.ask('''[...document.querySelectorAll('[data-call]')].map(
        it => [it.dataset.call, it.dataset.of, Number(it.dataset.count), Number(it.dataset.cost), Number(it.dataset.longest)])''')
    checks.that('waits of a queue', ['wait', 'queue 0xbeef', 2, 3000000, 2000000] in rows)
    checks.that('... of the host', ['wait', 'the host', 1, 5000000, 5000000] in rows)
    checks.that('events', ['mark', 'queue 0xbeef', 2, 30000, 20000] in rows)
    checks.that('allocations', ['allocated', 'heap “device”', 3, 7000000, 4000000] in rows)
    checks.that('out of memory', ['oom', 'pool “scratch”', 1, 0, 0] in rows)
    checks.that('... one of them failed',
                browser.ask("document.querySelector('[data-call=allocated] td:last-child').textContent"), '1')


def check_rest(browser, checks):
    browser.press('?')
    checks.that('help', browser.ask("document.getElementById('help').open"))
    browser.press('?')
    theme = checks.data('theme')
    browser.press('d')
    checks.that('dark and light', {theme, checks.data('theme')}, {'dark', 'light'})
    browser.press('d')
    checks.that('what is drawn has labels', browser.ask(
        "[...document.querySelectorAll('canvas[role=img]')].every(it => it.getAttribute('aria-label'))"))
    checks.that('one tab is chosen', browser.ask("document.querySelectorAll('[aria-selected=true]').length"), 1)
    checks.that('it prints', len(browser.call('Page.printToPDF')['data']) > 10000)


def check_fragment(browser, checks, folder):
    browser.go(folder + '/known.html', 'view=cursor&t=45000000&by=pool')
    checks.that('an address has a view, a moment, and groups', checks.groups(), {'pool “weights & co”': (48 * MIB - 3 * KIB, 3)})


    checks.that('... and says nothing of it', browser.ask("document.getElementById('message').hidden"))
    browser.go(folder + '/known.html', 'view=nothing&by=pool')
    checks.that('an address with a wrong view says which there are', checks.text('#message'),
                '#view=nothing is unknown; there are bytes, lives, heap, peak, cursor, leaks, calls.')
    browser.go(folder + '/known.html', 'view=lives')


def has_libdw():
    return os.environ.get('have_libdw', 'yes') == 'yes'


def check_examples(browser, checks, folder):
    """Those that the guide finds by their pages."""
    browser.go(folder + '/leaking.html', 'view=leaks')
    checks.that('a program that leaks: by what', list(checks.groups()), ['plan'])
    leak = checks.groups().get('plan', (0, 0))
    checks.that('... more than half of a device', leak[0] > 64 * MIB)
    browser.press('g', 'g')
    stacks = list(checks.groups().items()) or [('', (0, 0))]
    # Without debugging information, a function is unknown that is inlined in the next one.
    places = ('allocate ', 'find_plan ', 'run_network ') if has_libdw() else ('leaking+0x',)
    checks.that('... from where: a place in the program', stacks[0][0].startswith(places), True)
    checks.that('... and no other', stacks[0][1], leak)
    browser.press('G', 'G', '4')
    checks.that('... is most at the peak', list(checks.groups()), ['plan', 'weights', 'activations'])
    browser.go(folder + '/leaking-fixed.html', 'view=leaks')
    checks.that('... and not when it is mended', checks.groups(), {})
    browser.go(folder + '/fragmenting.html', 'view=bytes')
    browser.press('o', 'o')
    peaks = checks.number('peak') / MIB, checks.number('managedPeak') / MIB
    checks.that('a program that fragments: its heap has 64 MiB for at most 43', peaks[0] < 43 and peaks[1] == 64)
    browser.press('6')
    checks.that('... and leaks nothing', checks.groups(), {})
    browser.go(folder + '/fragmenting.html', 'view=heap')
    browser.press('m')
    free, largest = checks.figure('free-bytes'), checks.figure('largest-hole')
    checks.that('... all in use is of blocks', checks.figure('held-bytes'), '0 bytes')
    checks.that('... half is free when memory runs out', float(free.split(' MiB')[0]) > 32, True)
    checks.that('... in stretches too short', float(largest.split(' MiB')[0]) < 16.4, True)
    browser.go(folder + '/fragmenting-fixed.html', 'view=heap')
    checks.that('... and does not run out when it is mended',
                browser.ask('document.querySelector("[data-go=m]").hidden'), True)


def check_lossy(browser, checks, folder):
    browser.go(folder + '/lossy.html')
    facts = checks.text('#facts')
    checks.that('lost events are said', '12,345 events were lost' in facts)
    checks.that('... that the end is missing', 'not ended' in facts)
    checks.that('... and what nobody knows', '2 events of unknown blocks' in facts)
    browser.press('6')
    checks.that('what is known is shown', checks.groups(), {
        'weights': (16 * MIB - KIB + 3 * MIB, 3)})


def check_odd(browser, checks, folder):
    for name in 'empty', 'odd':
        browser.go('%s/%s.html' % (folder, name))
        for key in list('1234567') + ['g', 'o', 'p', ',', '.', 'e', '+', '-', '0', 'ArrowLeft', '2', 'ArrowUp', '3', '4']:
            browser.press(key)
        checks.that('the views of a trace that is ' + name, checks.data('error'), None)
    browser.press('3', '0')
    browser.ask('app.setMoment(100)')
    browser.settle()
    checks.that('a heap without pools: its extents', checks.figure('used-bytes'), '200.0 KiB')
    checks.that('... free between them, and behind', checks.figure('holes'), '100')
    checks.that('no event is of an unknown block', 'unknown' in checks.text('#facts'), False)
    browser.press('1')
    rows = browser.ask("""[...document.querySelectorAll('#objects tbody tr')].map(
        it => [...it.cells].slice(0, 5).map(cell => cell.textContent))""")
    checks.that('blocks of a heap are not its extents',
                [it[1:3] for it in rows if it[0] == 'blocks of heap 2'], [['4.00 KiB', '8.00 KiB']])
    checks.that('what is lent is managed already',
                [it[1:3] for it in rows if it[0] == 'pool “lender”'], [['64.00 KiB', '64.00 KiB']])


def format_bytes(n):
    unit = 0
    while n >= 1024 and unit < 6:
        n, unit = n / 1024, unit + 1
    return '%.*f %s' % (0 if unit == 0 or n >= 1000 else 1 if n >= 100 else 2, n,
                        ('bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[unit])


def make_printable(text):
    return text.replace('\x1b', '\\x1b')


def sum_groups(blocks, name):
    """name -> bytes, count; as the page has them."""
    sums = {}
    for block in blocks:
        of = name(block)
        size, count = sums.get(of, (0, 0))
        sums[of] = size + block['size'], count + 1
    return sums


def check_counters(checks, allocators):
    for it in allocators:
        if it['class'] == 'allocator':
            continue
        counters = it['counters']
        is_pool = it['class'] == 'pool'
        row = checks.browser.ask("""Object.fromEntries([...document.querySelectorAll(
            '#objects-table [data-object]')].find(it => it.cells[0].textContent === %s)
            ?.querySelectorAll('[data-counter]').values().map(it => [it.dataset.counter, it.textContent]) ?? [])"""
                                 % json.dumps(name_of(it)))
        checks.that('... in use of ' + repr(name_of(it)), row.get('in use'),
                    format_bytes(counters['active_bytes' if is_pool else 'used_bytes']))
        checks.that('... held, or free', row.get('held, or free'),
                    format_bytes(counters['held_bytes' if is_pool else 'free_bytes']))
        checks.that('... managed', row.get('managed'),
                    format_bytes(counters['managed_bytes' if is_pool else 'upstream_bytes']))
        if is_pool:
            checks.that('... requests', row.get('requests'), str(counters['hits'] + counters['misses']))


def name_of(it):
    return '%s “%s”' % (it['class'], make_printable(it['name'])) if it['name'] else '%s %d' % (it['class'], it['id'])


def check_snapshot_groups(browser, checks, pools):
    blocks = [dict(it, pool=name_of(pool)) for pool in pools for it in pool['blocks'] if it['active']]
    managed = sum(it['alloc_size'] for pool in pools for it in pool['blocks'])
    browser.press('3')
    checks.that('... bytes in use', checks.number('active'), sum(it['size'] for it in blocks))
    checks.that('... as said', checks.figure('bytes'), format_bytes(sum(it['size'] for it in blocks)))
    checks.that('... blocks', checks.figure('blocks'), str(len(blocks)))
    checks.that('... managed', checks.number('managedPeak'), managed)
    for by, name in (
            ('tag', lambda it: make_printable(it.get('tag') or '(no tag)')),
            ('thread', lambda it: str(it.get('thread', '(not known)'))),
            ('queue', lambda it: 'queue ' + it['queue'] if it.get('queue') else '(no queue)'),
            ('pool', lambda it: it['pool'])):
        browser.ask('app.set({ by: %s })' % json.dumps(by))
        browser.settle()
        checks.that('... by ' + by, checks.groups(), sum_groups(blocks, name))
    browser.ask("app.set({ by: 'age' })")
    browser.settle()
    unknown = [it for it in blocks if 'age' not in it]
    checks.that('... of unknown age', checks.groups().get('(age not known)', (0, 0)),
                (sum(it['size'] for it in unknown), len(unknown)))
    ages = sorted(browser.ask("""[...app.trace.sort.keys()].filter(it => app.trace.sort[it] === 2)
        .map(it => app.trace.duration - app.trace.birth(it))"""))
    checks.that('... ages', ages, sorted(it['age'] for it in blocks if 'age' in it))
    browser.ask("app.set({ by: 'tag' })")
    browser.settle()


def check_snapshot(browser, checks, folder, name, reason):
    with open('%s/%s' % (folder, name)) as file:
        snapshot = json.load(file)
    allocators = snapshot['allocators']
    pools = [it for it in allocators if it['class'] == 'pool']
    heap = [it for it in allocators if it['class'] == 'heap'][0]
    browser.go('%s/%s.html' % (folder, name))
    facts = checks.text('#facts')
    checks.that('a snapshot, %s: its program, process, date and reason' % name, all(it in facts for it in (
        'program make-snapshot', 'process %d' % snapshot['pid'], snapshot['date'].replace('T', ' ')[:19], reason)))
    note = checks.text('#note')
    checks.that('... its message', make_printable(snapshot.get('message', '')) in note
                and ('bytes asked for' in note) == ('message' in snapshot))
    checks.that('... what it does not know', 'does not know what was freed before' in note)
    checks.that('... that blocks were not followed', 'were not followed' in note, not snapshot['followed'])
    check_counters(checks, allocators)
    check_snapshot_groups(browser, checks, pools)
    browser.press('2')
    used = sum(it['size'] for it in heap['extents'])
    held = sum(it['alloc_size'] for pool in pools for it in pool['blocks'] if not it['active'])
    checks.that('... pieces', checks.figure('pieces'), str(len(heap['pieces'])))
    checks.that('... bytes in them', checks.figure('piece-bytes'), format_bytes(sum(it['size'] for it in heap['pieces'])))
    checks.that('... in use of them', checks.figure('used-bytes'), format_bytes(used))
    checks.that('... free', checks.figure('free-bytes'), format_bytes(heap['counters']['free_bytes']))
    checks.that('... held by pools', checks.figure('held-bytes'), format_bytes(held))
    checks.that('... there is one moment', browser.ask("document.getElementById('moment').checkVisibility()"), False)
    for key in list('4567123') + ['p', 'e', ',', '.', '+', '0', 'ArrowLeft', 'Shift+ArrowLeft', '?', '?', 'd', 'g', 'G', 'o', 'O']:
        browser.press(key)
    checks.that('... the same moment after any key', checks.number('active'),
                sum(it['size'] for pool in pools for it in pool['blocks'] if it['active']))


def check_snapshots(browser, checks, folder):
    check_snapshot(browser, checks, folder, 'asked', 'asked for')
    check_snapshot(browser, checks, folder, 'oom', 'memory ran out')
    browser.press('3')
    checks.that('stacks of a snapshot', 'make-snapshot' in checks.text('#alive ol.stack'))
    browser.press('2')
    box = browser.ask("(() => { const b = document.getElementById('map').getBoundingClientRect(); return [b.x, b.y]; })()")
    browser.point(box[0] + 200, box[1] + 5)
    checks.that('memory in use, and for how long', 'ago' in checks.text('#piece') and '(no tag)' in checks.text('#piece'))
    check_snapshot(browser, checks, folder, 'parts', 'asked for')
    for name in 'none', 'odd':
        browser.go('%s/%s.json.html' % (folder, name))
        for key in list('123') + ['g', 'o', 'p', 'e', 'm', 'g', 'o', '3', '2', '1']:
            browser.press(key)
        checks.that('the views of a snapshot that is ' + name, checks.data('error'), None)
    browser.go(folder + '/odd.json.html', 'view=cursor')
    checks.that('... its bytes', (checks.figure('bytes'), checks.figure('managed')), ('7 bytes', '8.00 EiB'))
    browser.go(folder + '/small.html', 'view=bytes&by=sort&t=0')
    checks.that('an address of a trace leads to what a snapshot has', (checks.data('view'), checks.number('active')), ('objects', 90))


# What each column of pixels has is what was in use at most, each block's own height, and the rest of
# each colour.
COLUMNS = '''(() => {
  const { ids, pixels, column } = livesView, { width, height } = pixels, wrong = [];
  const { best, most } = app.selection.active.sample(app.range.t0, app.range.t1, width);
  const isRight = (n, bytes) => Math.abs(n - bytes / column.bytesPerPixel) <= 1;
  for (let x = 0; x < width; x += 7) {
    let top = 0;
    while (top < height && ids[top * width + x] === 0)
      top++;
    if (Math.abs((height - top) * column.bytesPerPixel - most[x]) > column.bytesPerPixel)
      wrong.push(x);
    const counts = new Map();
    for (let y = top; y < height; y++)
      counts.set(ids[y * width + x], (counts.get(ids[y * width + x]) || 0) + 1);
    for (const [id, n] of counts)
      if (id > 0 && !isRight(n, app.trace.size[id - 1]))
        wrong.push(x);
    if (x % 91 === 0 && best[x] >= 0) {
      const rest = new Float64Array(ALL_COLORS.length);
      for (const life of app.selection.aliveAt(app.selection.moments[best[x]]))
        if (app.trace.size[life] < column.bytesPerPixel)
          rest[column.colorOf[column.groups[life]]] += app.trace.size[life];
      rest.forEach((bytes, color) => {
        if (!isRight(counts.get(-color - 1) || 0, bytes))
          wrong.push(x);
      });
    }
  }
  return wrong.length;
})()'''


# The same by each step on its own, at some pixels.
SAMPLES = '''(() => {
  const { times, values } = app.selection.active, { t0, t1 } = app.range, n = 500, step = (t1 - t0) / n;
  const { best, least, most } = app.selection.active.sample(t0, t1, n);
  let wrong = 0;
  for (let x = 0; x < n; x += 23) {
    const begin = t0 + step * x, end = x === n - 1 ? t1 : t0 + step * (x + 1);
    let high = 0, low = 0;
    for (let i = 0; i < times.length && times[i] <= end; i++)
      if (times[i] <= begin)
        high = low = values[i];
      else
        [high, low] = [Math.max(high, values[i]), Math.min(low, values[i])];
    wrong += high !== most[x] || low !== least[x] || best[x] >= 0 && values[best[x]] !== high;
  }
  return wrong;
})()'''


def check_large(browser, checks, folder):
    browser.go(folder + '/large.html', 'view=lives')
    checks.that('a large trace: what is the most and the least in a pixel', browser.ask(SAMPLES), 0)
    checks.that('... each column of lives', browser.ask(COLUMNS), 0)
    for keys in ['+'] * 6, ['+'] * 6, ['ArrowLeft'], ['0', ']', ']']:
        browser.press(*keys)
        browser.ask('app.draw()')
        if keys[0] != '0':
            checks.that('... after ' + ' '.join(keys), browser.ask('[%s, %s]' % (COLUMNS, SAMPLES)), [0, 0])
    browser.press('0')
    checks.that('... what is alive at the peak is the peak', browser.ask(
        'sumSizes(app.trace, app.selection.aliveAt(app.selection.peakMoment)) === app.selection.peak'))
    for view in '1234567':
        browser.press(view)
    browser.press('2')
    measured = browser.ask('(measure(app), { ...document.documentElement.dataset })')
    print('# lives %s; ms to open: %s (unpacked %s, decoded %s); ms for a frame of lives: median %s, longest %s, all %s' % (
        measured['lives'], measured['openMs'], measured['unpackedMs'], measured['decodedMs'],
        measured['frameMedian'], measured['frameLongest'], measured['frameWhole']))


def check_old_browser(browser, checks, folder):
    script = browser.call('Page.addScriptToEvaluateOnNewDocument', source='delete window.DecompressionStream')
    browser.go(folder + '/known.html')
    checks.that('a browser without DecompressionStream is told', 'needs DecompressionStream' in checks.text('#message'))
    browser.call('Page.removeScriptToEvaluateOnNewDocument', identifier=script['identifier'])


def check_events(browser, checks):
    """Of all that was done: nothing failed, and nothing came from elsewhere."""
    faults = [it['params'] for it in browser.events
              if it.get('method') in ('Runtime.exceptionThrown', 'Page.javascriptDialogOpening')
              or it.get('method') == 'Log.entryAdded' and it['params']['entry']['level'] == 'error']
    checks.that('no script fails', faults, [])
    asked = {it['params']['request']['url'].split(':')[0] for it in browser.events
             if it.get('method') == 'Network.requestWillBeSent'}
    checks.that('nothing is asked of a network', asked - {'file', 'about', 'data'}, set())


def take_pictures(browser, folder, pictures):
    of_traces, of_snapshots = ('bytes', 'lives', 'heap', 'peak', 'cursor', 'leaks', 'calls'), ('objects', 'heap', 'cursor')
    for page, views in ('known', of_traces), ('large', of_traces), ('asked', of_snapshots), ('oom', of_snapshots):
        for view in views:
            for theme in 'light', 'dark':
                browser.go('%s/%s.html' % (folder, page), 'view=%s&theme=%s' % (view, theme))
                browser.settle()
                data = browser.call('Page.captureScreenshot', format='png')['data']
                with open('%s/%s-%s-%s.png' % (pictures, page, view, theme), 'wb') as file:
                    file.write(base64.b64decode(data))


def main():
    folder = os.path.abspath(sys.argv[2])
    browser = Browser(sys.argv[1], folder)
    checks = Checks(browser)
    try:
        browser.open_tab()
        print('# ' + browser.call('Browser.getVersion')['product'], flush=True)
        if len(sys.argv) > 3:
            take_pictures(browser, folder, sys.argv[3])
            return
        browser.go(folder + '/known.html')
        check_numbers(browser, checks)
        check_held(browser, checks)
        check_groups(browser, checks)
        check_heap(browser, checks)
        check_lives(browser, checks)
        check_calls(browser, checks)
        check_rest(browser, checks)
        check_fragment(browser, checks, folder)
        check_examples(browser, checks, folder)
        check_lossy(browser, checks, folder)
        check_odd(browser, checks, folder)
        check_snapshots(browser, checks, folder)
        check_large(browser, checks, folder)
        check_old_browser(browser, checks, folder)
        check_events(browser, checks)
    finally:
        browser.close()


main()
