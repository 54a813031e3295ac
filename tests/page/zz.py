import sys, time, json
sys.dont_write_bytecode = True
import rig
from acts import *
def test_x(r, page):
    made = r.opened()
    front = r.front()
    listen(page, sentences(11))
    r.show(page, made)
    page.run('''window.__log=[]; const f=window.fetch; window.fetch=async(...a)=>{const x=await f(...a); if(!String(a[0]).includes('watch')) x.clone().text().then(tt=>window.__log.push([String(a[0]).slice(30),Math.round(performance.now()),tt.slice(0,600)])); return x}''')
    r.begin_scripted(made, 'What?', sentences(11))
    time.sleep(2)
    print(turns(page), r.conversation(made)['busy'], said(page))
    for x in page.js('window.__log'): print(x)
    time.sleep(4)
    print(turns(page), r.conversation(made)['busy'], said(page))
    for x in page.js('window.__log'): print(x)
rig.run(globals(), daemon=rig.SLOW)
