/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time line of the HTML page. Shares of equal parts of time are written as letters with 64
 * values and drawn on a canvas by a script: there are too many ranks and parts for HTML elements.
 */
#include <math.h>
#include <stdio.h>

#include "analysis/job/figures.h"
#include "analysis/timeline/timeline.h"
#include "cli/report/report_formats.h"
#include "cli/report/report_timeline.h"
#include "core/base/markup.h"

enum { PARTS = 2048, CELLS = 320000 }; /* two letters each: the file stays below 1 MB */

/* Letters without a meaning in HTML. */
static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

static void put_shares(const float *share, uint32_t n, FILE *out)
{
        for (uint32_t i = 0; i < n; i++)
                fputc(letters[(int)lround(63 * fmin(1, fmax(0, share[i])))], out);
}

static void put_rank(const struct capo_page *r, const struct capo_timeline *t,
                     const struct capo_timeline_rank *rank, FILE *out)
{
        const struct capo_job_process *p = &r->job->processes[rank->process];
        char name[400];

        if (p->rank >= 0)
                snprintf(name, sizeof name, "rank %d  %.300s", p->rank, p->host);
        else
                snprintf(name, sizeof name, "%.300s pid %u", p->host, p->header.pid);
        fputs("<i data-n=\"", out);
        capo_markup_text(out, name);
        fputs("\" data-b=\"", out);
        put_shares(rank->busy, t->n_parts, out);
        fputs("\" data-w=\"", out);
        put_shares(rank->waiting, t->n_parts, out);
        fputs("\"></i>\n", out);
}

/* Begins of steps, in thousandths of a part of the time line. */
static void put_steps(const struct capo_page *r, const struct capo_timeline *t, FILE *out)
{
        const struct capo_job_steps *s = &r->steps;
        double at_s = 0, span = t->to_s - t->from_s;
        uint32_t each = s->steps.n / 4096 + 1;

        for (uint32_t i = 0; i < s->steps.n; i += each) {
                at_s = ((double)(r->job->processes[s->process].header.t0_real_ns -
                                 r->job->t_begin_ns) +
                        (double)s->steps.step[i].t_ns) /
                       1e9;
                if (at_s >= t->from_s && at_s <= t->to_s)
                        fprintf(out, "%llu:%.5f ", (unsigned long long)capo_job_step_number(s, i),
                                (at_s - t->from_s) / span);
        }
}

void report_timeline_chart(const void *about, FILE *out)
{
        const struct report_view *view = about;
        const struct capo_page *r = view->page;
        struct capo_timeline t;
        char text[32];

        capo_timeline_make(r->job, PARTS, CELLS, &t);
        if (t.n_ranks) {
                fprintf(out,
                        "<section><h2>Time line</h2>\n<p class=\"note\"><b class=\"k busy\"></b> %s "
                        "<b class=\"k wait\"></b> waiting for late ranks <b class=\"k idle\"></b> %s</p>\n",
                        t.gpu ? "a call on the GPU" : "the host is in an NCCL call",
                        t.gpu ? "no call on the GPU" : "outside of NCCL");
                fprintf(out,
                        "<div id=\"tl\" data-from=\"%.6f\" data-to=\"%.6f\" data-parts=\"%u\" "
                        "data-steps=\"",
                        t.from_s, t.to_s, t.n_parts);
                put_steps(r, &t, out);
                fputs("\">\n", out);
                for (uint32_t i = 0; i < t.n_ranks; i++)
                        put_rank(r, &t, &t.rank[i], out);
                fputs("<canvas tabindex=\"0\" role=\"img\" aria-label=\"time line of the "
                      "ranks\"></canvas><output>&#160;</output></div>\n",
                      out);
                if (t.n_ranks < r->job->n_processes)
                        fprintf(out, "<p class=\"note\">%u of %s ranks.</p>\n", t.n_ranks,
                                capo_text_count(r->job->n_processes, text));
                fputs("<p class=\"note\">Wheel or pinch: zoom. Drag: move. + - and arrows: the same. "
                      "Double click: all. Of the time of which the logs keep single calls. Calls that "
                      "were not timed are taken to last as long as their like. capo trace draws "
                      "each call.</p>\n</section>\n",
                      out);
        }
        capo_timeline_finish(&t);
}

static const char script[] =
        "(()=>{const T=document.getElementById('tl');if(!T)return;\n"
        "const L='0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_',"
        "D=T.dataset,F=+D.from,S=D.to-F,P=+D.parts,c=T.querySelector('canvas'),o=T.querySelector('output'),g=c.getContext('2d'),\n"
        "K=D.steps.trim().split(' ').filter(x=>x).map(x=>x.split(':').map(Number)),\n"
        "R=[...T.querySelectorAll('i')].map(e=>({n:e.dataset.n,b:[...e.dataset.b].map(x=>L.indexOf(x)/63),w:[...e.dataset.w].map(x=>L.indexOf(x)/63)}));\n"
        "let a=0,z=1,X=150,H=R.length>64?Math.max(2,Math.floor(1152/R.length)):18,G=H>6?1:0,B=H-2*G,W=0,hold=null,two=0;\n"
        "const css=n=>getComputedStyle(document.documentElement).getPropertyValue(n).trim(),"
        "sec=s=>s<1e-3?(s*1e6).toFixed(0)+' us':s<1?(s*1e3).toFixed(s<.01?3:1)+' ms':s.toFixed(s<100?3:1)+' s';\n"
        "const clamp=()=>{z=Math.min(1,Math.max(8/P,z));a=Math.min(1-z,Math.max(0,a))};\n"
        /* the mean share of rank r from part x to part y */
        "const mean=(v,x,y)=>{let s=0,n=0;for(let i=Math.floor(x);i<y&&i<P;i++){s+=v[i];n++}return n?s/n:0};\n"
        "function draw(){clamp();const d=window.devicePixelRatio||1;W=T.clientWidth;X=W<560?70:150;"
        "const h=R.length*H+34;c.style.width=W+'px';c.style.height=h+'px';c.width=W*d;c.height=h*d;g.setTransform(d,0,0,d,0,0);\n"
        "g.font='12px system-ui,sans-serif';g.textBaseline='middle';const w=W-X-4,ink=css('--ink'),soft=css('--soft');\n"
        "R.forEach((r,i)=>{const y=i*H;g.fillStyle=css('--idle');g.fillRect(X,y+G,w,B);\n"
        "for(let x=0;x<w;x++){const p=(a+z*x/w)*P,q=Math.max((a+z*(x+1)/w)*P,p+1e-6),b=mean(r.b,p,q),v=mean(r.w,p,q);\n"
        "if(b>0){g.fillStyle=css2.b;g.globalAlpha=1;g.fillRect(X+x,y+H-G-B*(b+v),1,B*b)}"
        "if(v>0){g.fillStyle=css2.w;g.fillRect(X+x,y+H-G-B*v,1,B*v)}}\n"
        "if(i%Math.ceil(14/H))return;g.fillStyle=ink;g.textAlign='left';g.fillText(W<560?r.n.split('  ')[0]:r.n,2,y+Math.max(H/2,6),X-8)});\n"
        "g.fillStyle=soft;g.strokeStyle=soft;const top=R.length*H;let last=-99;\n"
        "K.forEach(([n,t])=>{const x=X+(t-a)/z*w;if(x<X||x>X+w)return;g.globalAlpha=.5;g.fillRect(x,top,1,5);g.globalAlpha=1;\n"
        "if(x-last>70){g.textAlign='center';g.fillText('step '+n.toLocaleString('en'),Math.min(Math.max(x,X+28),X+w-30),top+11);last=x}});\n"
        "const n=W<560?2:4;for(let i=0;i<=n;i++){const x=X+w*i/n;g.textAlign=i?i<n?'center':'right':'left';g.fillText(sec(F+S*(a+z*i/n)),x,top+26)}\n"
        "T.dataset.drawn=R.length}\n"
        "let css2={};const paint=()=>{css2={b:css('--busy'),w:css('--wait')};draw()};\n"
        "const at=e=>{const b=c.getBoundingClientRect();return[(e.clientX-b.left-X)/(W-X-4),Math.floor((e.clientY-b.top)/H)]};\n"
        "function show(e){const[x,i]=at(e),r=R[i];if(!r||x<0||x>1){o.innerHTML='&nbsp;';return}const t=a+z*x,p=t*P,q=p+z*P/(W-X-4);\n"
        "const b=mean(r.b,p,q),v=mean(r.w,p,q),s=K.filter(k=>k[1]<=t).pop();"
        "o.textContent=r.n+'   '+sec(F+S*t)+(s?'   step '+s[0].toLocaleString('en'):'')+'   busy '+Math.round(100*b)+' %   waiting '+Math.round(100*v)+' %   idle '+Math.max(0,Math.round(100*(1-b-v)))+' %'}\n"
        "const zoom=(x,f)=>{const t=a+z*x;z*=f;clamp();a=t-z*x;draw()};\n"
        "c.addEventListener('wheel',e=>{e.preventDefault();zoom(Math.min(1,Math.max(0,at(e)[0])),e.deltaY>0?1.25:.8)},{passive:false});\n"
        "c.addEventListener('pointerdown',e=>{hold=[e.clientX,a]});"
        "addEventListener('pointerup',()=>hold=null);\n"
        "c.addEventListener('pointermove',e=>{if(hold&&e.pointerType!='touch'){a=hold[1]-(e.clientX-hold[0])/(W-X-4)*z;draw()}show(e)});"
        "c.addEventListener('pointerleave',()=>o.innerHTML='&nbsp;');\n"
        "c.addEventListener('touchmove',e=>{const t=e.touches;if(t.length==2){e.preventDefault();const d=Math.abs(t[0].clientX-t[1].clientX);if(two)zoom(.5,two/Math.max(1,d));two=d}else if(hold&&z<1){e.preventDefault();a=hold[1]-(t[0].clientX-hold[0])/(W-X-4)*z;draw()}},{passive:false});\n"
        "c.addEventListener('touchend',()=>two=0);"
        "c.addEventListener('dblclick',()=>{a=0;z=1;draw()});\n"
        "c.addEventListener('keydown',e=>{const k=e.key;if(k=='+')zoom(.5,.8);else if(k=='-')zoom(.5,1.25);else if(k=='ArrowLeft'){a-=z/8;draw()}else if(k=='ArrowRight'){a+=z/8;draw()}else return;e.preventDefault()});\n"
        "addEventListener('resize',paint);matchMedia('(prefers-color-scheme:dark)').addEventListener('change',paint);matchMedia('print').addEventListener('change',paint);paint()})();\n";

void report_timeline_script(FILE *out)
{
        fputs(script, out);
}
